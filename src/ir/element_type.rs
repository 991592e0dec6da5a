//! Element types of tensors, under ONNX's own words and numbers.

use std::fmt;

macro_rules! element_types {
    ($($variant:ident $code:literal $name:literal $bits:literal $kind:ident),* $(,)?) => {
        /// Element type of a tensor (`TensorProto.DataType`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ElementType {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl ElementType {
            /// Every element type that ONNX knows.
            pub const ALL: &[ElementType] = &[$(ElementType::$variant,)*];

            /// The type of a `TensorProto.DataType` number; `None` for `UNDEFINED` and numbers that are not assigned.
            #[must_use]
            pub fn from_code(code: i32) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// The `TensorProto.DataType` number.
            #[must_use]
            pub fn code(self) -> i32 {
                match self { $(Self::$variant => $code,)* }
            }

            /// ONNX's word for the type, as in its textual syntax: `float`, `float16`, `int64`, ...
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The type of a word of the textual syntax.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            /// Stored size of one element in bits; 0 for strings, whose size depends on their text.
            #[must_use]
            pub fn bits(self) -> u32 {
                match self { $(Self::$variant => $bits,)* }
            }

            fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind,)* }
            }
        }
    };
}

#[derive(PartialEq, Eq)]
enum Kind {
    Real,
    Integer,
    Logical,
    Complex,
    Text,
}

element_types! {
    Float 1 "float" 32 Real,
    Uint8 2 "uint8" 8 Integer,
    Int8 3 "int8" 8 Integer,
    Uint16 4 "uint16" 16 Integer,
    Int16 5 "int16" 16 Integer,
    Int32 6 "int32" 32 Integer,
    Int64 7 "int64" 64 Integer,
    String 8 "string" 0 Text,
    Bool 9 "bool" 8 Logical,
    Float16 10 "float16" 16 Real,
    Double 11 "double" 64 Real,
    Uint32 12 "uint32" 32 Integer,
    Uint64 13 "uint64" 64 Integer,
    Complex64 14 "complex64" 64 Complex,
    Complex128 15 "complex128" 128 Complex,
    Bfloat16 16 "bfloat16" 16 Real,
    Float8e4m3fn 17 "float8e4m3fn" 8 Real,
    Float8e4m3fnuz 18 "float8e4m3fnuz" 8 Real,
    Float8e5m2 19 "float8e5m2" 8 Real,
    Float8e5m2fnuz 20 "float8e5m2fnuz" 8 Real,
    Uint4 21 "uint4" 4 Integer,
    Int4 22 "int4" 4 Integer,
    Float4e2m1 23 "float4e2m1" 4 Real,
    Float8e8m0 24 "float8e8m0" 8 Real,
    Uint2 25 "uint2" 2 Integer,
    Int2 26 "int2" 2 Integer,
}

impl ElementType {
    /// Floating point of any width.
    #[must_use]
    pub fn is_real(self) -> bool {
        self.kind() == Kind::Real
    }

    /// Signed or unsigned integer of any width.
    #[must_use]
    pub fn is_integer(self) -> bool {
        self.kind() == Kind::Integer
    }

    /// Complex of two floats or two doubles.
    #[must_use]
    pub fn is_complex(self) -> bool {
        self.kind() == Kind::Complex
    }

    /// Bytes that `elements` packed elements take (4-bit types share bytes).
    #[must_use]
    pub fn packed_bytes(self, elements: u128) -> u128 {
        elements.saturating_mul(u128::from(self.bits())).div_ceil(8)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::ElementType;

    #[test]
    fn codes_and_names_are_one_to_one() {
        for &element in ElementType::ALL {
            assert_eq!(ElementType::from_code(element.code()), Some(element));
            assert_eq!(ElementType::from_name(element.name()), Some(element));
        }
        assert_eq!(ElementType::from_code(0), None);
    }

    #[test]
    fn four_bit_elements_share_bytes() {
        assert_eq!(ElementType::Int4.packed_bytes(3), 2);
        assert_eq!(ElementType::Float16.packed_bytes(6), 12);
    }
}
