//! An ONNX model in the making.

/// Type of the elements of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::export) enum ElemType {
    F32,
    F64,
    I64,
    U8,
    Bool,
}

impl ElemType {
    /// The number that ONNX gives the type.
    pub(in crate::export) fn code(self) -> u64 {
        match self {
            Self::F32 => 1,
            Self::U8 => 2,
            Self::I64 => 7,
            Self::Bool => 9,
            Self::F64 => 11,
        }
    }

    /// numpy's name of the type.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::U8 => "uint8",
            Self::I64 => "int64",
            Self::Bool => "bool",
            Self::F64 => "float64",
        }
    }
}

/// The elements of a constant.
#[derive(Clone, Debug)]
pub(in crate::export) enum Data {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Data {
    pub(super) fn kind(&self) -> ElemType {
        match self {
            Self::F32(_) => ElemType::F32,
            Self::I64(_) => ElemType::I64,
        }
    }
}

/// A constant.
#[derive(Clone, Debug)]
pub(in crate::export) struct Constant {
    pub(in crate::export) shape: Vec<usize>,
    pub(in crate::export) data: Data,
}

/// A setting of an operator.
#[derive(Clone, Debug)]
pub(in crate::export) enum Attribute {
    Int(i64),
    Ints(Vec<i64>),
}

/// An operator applied to values, which have names.
#[derive(Clone, Debug)]
pub(in crate::export) struct Node {
    pub(in crate::export) op: &'static str,
    pub(in crate::export) inputs: Vec<String>,
    pub(in crate::export) output: String,
    pub(in crate::export) attributes: Vec<(&'static str, Attribute)>,
}

impl Node {
    /// The setting `name`, if it is an integer.
    pub(in crate::export) fn int(&self, name: &str) -> Option<i64> {
        self.attributes.iter().find_map(|(key, value)| match value {
            Attribute::Int(number) if *key == name => Some(*number),
            _ => None,
        })
    }

    /// The setting `name`, if it is a list of integers.
    pub(in crate::export) fn ints(&self, name: &str) -> Option<&[i64]> {
        self.attributes.iter().find_map(|(key, value)| match value {
            Attribute::Ints(numbers) if *key == name => Some(numbers.as_slice()),
            _ => None,
        })
    }
}

/// An input or output of the model, `[batch, shape...]`.
#[derive(Clone, Debug)]
pub(in crate::export) struct Port {
    pub(in crate::export) name: String,
    pub(in crate::export) kind: ElemType,
    pub(in crate::export) shape: Vec<usize>,
    /// What the values are, for the description beside the file.
    pub(in crate::export) meaning: String,
}

impl Port {
    /// Number of scalars of a row.
    pub(in crate::export) fn width(&self) -> usize {
        self.shape.iter().product()
    }
}

/// A model: operators in the order in which they run.
#[derive(Clone, Debug, Default)]
pub(in crate::export) struct Model {
    pub(in crate::export) nodes: Vec<Node>,
    pub(in crate::export) constants: Vec<(String, Constant)>,
    pub(in crate::export) inputs: Vec<Port>,
    pub(in crate::export) outputs: Vec<Port>,
}

impl Model {
    /// Adds an input and returns its name.
    pub(super) fn input(&mut self, name: &str, kind: ElemType, shape: &[usize], meaning: &str) -> String {
        let port = Port { name: name.into(), kind, shape: shape.into(), meaning: meaning.into() };
        self.inputs.push(port);
        name.into()
    }

    /// Makes `value` an output.
    pub(super) fn output(&mut self, name: &str, value: &str, kind: ElemType, shape: &[usize], meaning: &str) {
        let attributes = Vec::new();
        self.nodes.push(Node { op: "Identity", inputs: vec![value.into()], output: name.into(), attributes });
        let port = Port { name: name.into(), kind, shape: shape.into(), meaning: meaning.into() };
        self.outputs.push(port);
    }

    /// Adds a constant and returns its name.
    fn constant(&mut self, shape: &[usize], data: Data) -> String {
        let name = format!("c{}", self.constants.len());
        self.constants.push((name.clone(), Constant { shape: shape.into(), data }));
        name
    }

    /// Adds a constant of numbers and returns its name.
    pub(super) fn numbers(&mut self, shape: &[usize], numbers: Vec<f32>) -> String {
        self.constant(shape, Data::F32(numbers))
    }

    /// Adds one number for all elements of another value and returns its name.
    pub(super) fn number(&mut self, number: f32) -> String {
        self.numbers(&[], vec![number])
    }

    /// Adds one integer and returns its name.
    pub(super) fn integer(&mut self, integer: i64) -> String {
        self.constant(&[], Data::I64(vec![integer]))
    }

    /// Adds a list of integers and returns its name.
    pub(super) fn integers(&mut self, integers: &[i64]) -> String {
        self.constant(&[integers.len()], Data::I64(integers.to_vec()))
    }

    /// Adds an operator and returns the name of its result.
    pub(super) fn op(&mut self, op: &'static str, inputs: &[&str]) -> String {
        self.op_with(op, inputs, &[])
    }

    /// Adds an operator with settings and returns the name of its result.
    pub(super) fn op_with(
        &mut self,
        op: &'static str,
        inputs: &[&str],
        attributes: &[(&'static str, Attribute)],
    ) -> String {
        let output = format!("v{}", self.nodes.len());
        let inputs = inputs.iter().map(|&name| name.into()).collect();
        self.nodes.push(Node { op, inputs, output: output.clone(), attributes: attributes.to_vec() });
        output
    }

    /// Converts the elements of a value to another type.
    pub(super) fn cast(&mut self, x: &str, kind: ElemType) -> String {
        self.op_with("Cast", &[x], &[("to", Attribute::Int(kind.code() as i64))])
    }

    /// Gives a value the shape `[batch, shape...]`.
    pub(super) fn reshape(&mut self, x: &str, shape: &[usize]) -> String {
        let shape: Vec<i64> = std::iter::once(-1).chain(shape.iter().map(|&n| n as i64)).collect();
        let shape = self.integers(&shape);
        self.op("Reshape", &[x, &shape])
    }

    /// Selects the columns `start..start + len` of a matrix.
    pub(super) fn columns(&mut self, x: &str, start: usize, len: usize) -> String {
        let [from, to] = [start, start + len].map(|at| self.integers(&[at as i64]));
        let axis = self.integers(&[1]);
        self.op("Slice", &[x, &from, &to, &axis])
    }

    /// Joins the columns of matrices.
    pub(super) fn join(&mut self, parts: &[String]) -> String {
        match parts {
            [one] => one.clone(),
            _ => {
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                self.op_with("Concat", &parts, &[("axis", Attribute::Int(1))])
            }
        }
    }

    /// The index of the column that holds each row's largest number, as integers `[batch, 1]`.
    pub(super) fn argmax(&mut self, x: &str) -> String {
        self.op_with("ArgMax", &[x], &[("axis", Attribute::Int(1)), ("keepdims", Attribute::Int(1))])
    }
}
