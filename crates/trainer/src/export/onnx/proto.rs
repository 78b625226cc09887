//! The few messages of Protocol Buffers of which an ONNX file consists.
//!
//! Numbers of fields are those of `onnx.proto3` (ONNX 1.8, IR version 7).

use crate::export::onnx::model::{Attribute, Constant, Data, Model, Node, Port};

/// Version of the format of ONNX files, and of its operators.
const IR_VERSION: u64 = 7;
pub(super) const OPSET: u64 = 13;

/// A message in the making: the bytes of its fields.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(mut self, field: u64, number: u64) -> Self {
        self.varint(field << 3);
        self.varint(number);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn each<T>(self, field: u64, items: impl IntoIterator<Item = T>, encode: impl Fn(T) -> Self) -> Self {
        items.into_iter().fold(self, |message, item| message.message(field, encode(item)))
    }
}

/// Encodes a whole model as the bytes of an ONNX file.
pub(super) fn encode(model: &Model) -> Vec<u8> {
    let graph = Message::default()
        .each(1, &model.nodes, node)
        .bytes(2, b"policy")
        .each(5, &model.constants, |(name, constant)| tensor(constant).bytes(8, name.as_bytes()))
        .each(11, &model.inputs, port)
        .each(12, &model.outputs, port);
    let opset = Message::default().bytes(1, b"").number(2, OPSET);
    Message::default()
        .number(1, IR_VERSION)
        .bytes(2, b"pavlov")
        .bytes(3, env!("CARGO_PKG_VERSION").as_bytes())
        .message(7, graph)
        .message(8, opset)
        .0
}

fn node(node: &Node) -> Message {
    let message = node.inputs.iter().fold(Message::default(), |to, name| to.bytes(1, name.as_bytes()));
    message.bytes(2, node.output.as_bytes()).bytes(4, node.op.as_bytes()).each(
        5,
        &node.attributes,
        |(name, value)| attribute(name, value),
    )
}

fn attribute(name: &str, value: &Attribute) -> Message {
    let message = Message::default().bytes(1, name.as_bytes());
    match value {
        Attribute::Int(number) => message.number(3, *number as u64).number(20, 2),
        Attribute::Ints(numbers) => {
            numbers.iter().fold(message, |to, &number| to.number(8, number as u64)).number(20, 7)
        }
    }
}

fn tensor(tensor: &Constant) -> Message {
    let message = tensor.shape.iter().fold(Message::default(), |to, &n| to.number(1, n as u64));
    let message = message.number(2, tensor.data.kind().code());
    match &tensor.data {
        Data::F32(numbers) => message.bytes(9, bytemuck::cast_slice(numbers)),
        Data::I64(numbers) => message.bytes(9, bytemuck::cast_slice(numbers)),
    }
}

fn port(port: &Port) -> Message {
    let rows = Message::default().bytes(2, b"batch");
    let shape = Message::default().message(1, rows);
    let shape = shape.each(1, &port.shape, |&n| Message::default().number(1, n as u64));
    let tensor = Message::default().number(1, port.kind.code()).message(2, shape);
    Message::default().bytes(1, port.name.as_bytes()).message(2, Message::default().message(1, tensor))
}
