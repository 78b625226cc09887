//! As much of protobuf as logs need: messages are written field by field, and the fields of a message are read.

/// A protobuf message under construction.
#[derive(Default)]
pub(super) struct Message(Vec<u8>);

impl Message {
    pub(super) fn bytes_of(&self) -> &[u8] {
        &self.0
    }

    /// Appends the tag of a field.
    fn tag(&mut self, field: u32, wire_type: u32) {
        self.number(u64::from(field << 3 | wire_type));
    }

    /// Appends a variable-length integer.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    pub(super) fn varint(&mut self, field: u32, number: u64) {
        self.tag(field, 0);
        self.number(number);
    }

    pub(super) fn double(&mut self, field: u32, number: f64) {
        self.tag(field, 1);
        self.0.extend(number.to_le_bytes());
    }

    /// Appends a packed list.
    pub(super) fn doubles(&mut self, field: u32, numbers: &[f64]) {
        let packed: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.bytes(field, &packed);
    }

    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, 2);
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub(super) fn message(&mut self, field: u32, message: &Message) {
        self.bytes(field, &message.0);
    }

    pub(super) fn fixed32(&mut self, field: u32, number: f32) {
        self.tag(field, 5);
        self.0.extend(number.to_le_bytes());
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A number of four or eight bytes.
    Fixed,
}

impl<'a> Wire<'a> {
    pub(super) fn number(self) -> Option<u64> {
        if let Wire::Number(number) = self { Some(number) } else { None }
    }

    pub(super) fn content(self) -> Option<&'a [u8]> {
        if let Wire::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// The first field of this number.
pub(super) fn field(message: &[u8], number: u32) -> Option<Wire<'_>> {
    fields(message).find(|(found, _)| *found == number).map(|(_, value)| value)
}

/// The fields of a message with their numbers, up to the first that is damaged.
fn fields(mut message: &[u8]) -> impl Iterator<Item = (u32, Wire<'_>)> {
    std::iter::from_fn(move || {
        let tag = number(&mut message)?;
        let mut take = |length: usize| {
            let (taken, rest) = message.split_at_checked(length)?;
            message = rest;
            Some(taken)
        };
        let value = match tag & 7 {
            1 => take(8).map(|_| Wire::Fixed)?,
            5 => take(4).map(|_| Wire::Fixed)?,
            0 => Wire::Number(number(&mut message)?),
            2 => {
                let length = number(&mut message)?;
                let (taken, rest) = message.split_at_checked(usize::try_from(length).ok()?)?;
                message = rest;
                Wire::Bytes(taken)
            }
            _ => return None,
        };
        Some((u32::try_from(tag >> 3).ok()?, value))
    })
}

/// Takes a variable-length integer off the front.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut found = 0;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        found |= u64::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let mut inner = Message::default();
        inner.varint(1, 300);
        let mut message = Message::default();
        message.varint(1, u64::MAX);
        message.double(2, 0.5);
        message.fixed32(3, 0.5);
        message.message(21, &inner);
        let read: Vec<(u32, Wire<'_>)> = fields(message.bytes_of()).collect();
        let wanted = [
            (1, Wire::Number(u64::MAX)),
            (2, Wire::Fixed),
            (3, Wire::Fixed),
            // 300 is 0b10_0101100: 0xAC, 0x02.
            (21, Wire::Bytes(&[0x08, 0xAC, 0x02])),
        ];
        assert_eq!(read, wanted);
        // A message that is cut off ends before the damaged field.
        let bytes = message.bytes_of();
        assert_eq!(fields(&bytes[..bytes.len() - 1]).count(), 3);
        assert_eq!(fields(&[0xFF; 20]).count(), 0);
    }
}
