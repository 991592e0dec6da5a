//! Elements of stored tensors. Analyses ask for them only where a value decides a shape, so every reader takes a limit
//! and nothing is decoded for a tensor that is larger, or whose payload is not as long as its dims say.

use bytes::Bytes;
use prost::Message;

use super::model::{Payload, TensorDef};
use super::proto::{TensorProto, TensorValuesProto};
use crate::ir::element_type::ElementType;

/// Bytes of a `TensorProto` that may be something else than elements (name, doc string). A message that is longer than
/// its elements and this is not decoded: its payload cannot have the length that its dims say.
const MESSAGE_SLACK: u128 = 1 << 20;

/// Bytes that one element can take in a numeric field: a tag and the longest varint.
const FIELD_BYTES: u128 = 12;

impl TensorDef {
    /// Number of elements; saturates. `None` when a dim is negative.
    #[must_use]
    pub fn element_count(&self) -> Option<u128> {
        let mut count = Some(1_u128);
        let mut empty = false;
        for &dim in &self.dims {
            let dim = u128::try_from(dim).ok()?;
            empty |= dim == 0;
            count = count.and_then(|count| count.checked_mul(dim));
        }
        if empty { Some(0) } else { Some(count.unwrap_or(u128::MAX)) }
    }

    /// Packed size of the elements in bytes; saturates. `None` for strings, undefined types and negative dims.
    #[must_use]
    pub fn stored_bytes(&self) -> Option<u128> {
        let element = self.element.filter(|element| element.bits() != 0)?;
        Some(element.packed_bytes(self.element_count()?))
    }

    /// Elements of an integer or bool tensor. `None` for other types, for more than `limit` elements, and when the
    /// payload is not here or has not the right length. `uint64` beyond `i64` saturates.
    #[must_use]
    pub fn integers(&self, limit: usize) -> Option<Vec<i64>> {
        let element = self.element.filter(|&e| e.is_integer() || e == ElementType::Bool)?;
        let count = self.count_within(limit)?;
        if count == 0 {
            return Some(Vec::new());
        }
        match &self.data {
            Payload::Raw(raw) => integers_of_raw(element, count, raw),
            Payload::Fields(message) => integers_of_fields(element, count, &numeric_fields(count, message)?),
            Payload::Missing | Payload::Strings(_) | Payload::External(_) => None,
        }
    }

    /// Elements of a `float`, `double`, `float16` or `bfloat16` tensor. `None` under the same terms as
    /// [`TensorDef::integers`].
    #[must_use]
    pub fn reals(&self, limit: usize) -> Option<Vec<f64>> {
        let element = self.element.filter(|&e| {
            matches!(e, ElementType::Float | ElementType::Double | ElementType::Float16 | ElementType::Bfloat16)
        })?;
        let count = self.count_within(limit)?;
        if count == 0 {
            return Some(Vec::new());
        }
        match &self.data {
            Payload::Raw(raw) => reals_of_raw(element, count, raw),
            Payload::Fields(message) => reals_of_fields(element, count, numeric_fields(count, message)?),
            Payload::Missing | Payload::Strings(_) | Payload::External(_) => None,
        }
    }

    /// Elements of a string tensor. `None` under the same terms as [`TensorDef::integers`].
    #[must_use]
    pub fn strings(&self, limit: usize) -> Option<Vec<Bytes>> {
        self.element.filter(|&e| e == ElementType::String)?;
        let count = self.count_within(limit)?;
        if count == 0 {
            return Some(Vec::new());
        }
        match &self.data {
            Payload::Strings(strings) => (strings.len() == count).then(|| strings.clone()),
            Payload::Fields(message) => {
                let strings = TensorProto::decode(message.clone()).ok()?.string_data;
                (strings.len() == count).then_some(strings)
            }
            Payload::Missing | Payload::Raw(_) | Payload::External(_) => None,
        }
    }

    /// The elements little-endian and packed, whether they are stored so or in numeric fields. `None` for strings and
    /// under the same terms as [`TensorDef::integers`].
    #[must_use]
    pub fn packed(&self, limit: usize) -> Option<Bytes> {
        let element = self.element?;
        let count = self.count_within(limit)?;
        let bytes = match &self.data {
            Payload::Raw(raw) => raw.clone(),
            Payload::Fields(message) => pack_fields(element, numeric_fields(count, message)?)?.into(),
            Payload::Missing | Payload::Strings(_) | Payload::External(_) => return None,
        };
        (self.stored_bytes()? == bytes.len() as u128).then_some(bytes)
    }

    fn count_within(&self, limit: usize) -> Option<usize> {
        usize::try_from(self.element_count()?).ok().filter(|&count| count <= limit)
    }
}

fn numeric_fields(count: usize, message: &Bytes) -> Option<TensorValuesProto> {
    let most = (count as u128).saturating_mul(FIELD_BYTES).saturating_add(MESSAGE_SLACK);
    if message.len() as u128 > most {
        return None;
    }
    TensorValuesProto::decode(message.clone()).ok()
}

fn right_length<T>(values: &[T], count: usize) -> Option<&[T]> {
    (values.len() == count).then_some(values)
}

/// Fixed-size chunks of a payload that must have exactly `count` of them.
fn chunks<const N: usize>(raw: &[u8], count: usize) -> Option<&[[u8; N]]> {
    let (chunks, rest) = raw.as_chunks::<N>();
    if !rest.is_empty() {
        return None;
    }
    right_length(chunks, count)
}

/// Elements narrower than a byte; the first stands in the lowest bits.
fn unpack(bits: u32, signed: bool, count: usize, bytes: impl ExactSizeIterator<Item = u8>) -> Option<Vec<i64>> {
    let per_byte = 8_usize.checked_div(bits as usize)?;
    if bytes.len() != count.div_ceil(per_byte) {
        return None;
    }
    let mask = (1_u8 << bits) - 1;
    let sign = 1_u8 << (bits - 1);
    let values = bytes.flat_map(|byte| {
        (0..per_byte).map(move |place| {
            let value = (byte >> (place as u32 * bits)) & mask;
            let wrap = if signed && value & sign != 0 { 1_i64 << bits } else { 0 };
            i64::from(value) - wrap
        })
    });
    Some(values.take(count).collect())
}

fn saturate(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn integers_of_raw(element: ElementType, count: usize, raw: &[u8]) -> Option<Vec<i64>> {
    use ElementType as E;
    Some(match element {
        E::Bool => right_length(raw, count)?.iter().map(|&b| i64::from(b != 0)).collect(),
        E::Uint8 => right_length(raw, count)?.iter().map(|&b| i64::from(b)).collect(),
        E::Int8 => chunks(raw, count)?.iter().map(|&b| i64::from(i8::from_le_bytes(b))).collect(),
        E::Uint16 => chunks(raw, count)?.iter().map(|&b| i64::from(u16::from_le_bytes(b))).collect(),
        E::Int16 => chunks(raw, count)?.iter().map(|&b| i64::from(i16::from_le_bytes(b))).collect(),
        E::Uint32 => chunks(raw, count)?.iter().map(|&b| i64::from(u32::from_le_bytes(b))).collect(),
        E::Int32 => chunks(raw, count)?.iter().map(|&b| i64::from(i32::from_le_bytes(b))).collect(),
        E::Int64 => chunks(raw, count)?.iter().map(|&b| i64::from_le_bytes(b)).collect(),
        E::Uint64 => chunks(raw, count)?.iter().map(|&b| saturate(u64::from_le_bytes(b))).collect(),
        E::Int4 | E::Int2 => unpack(element.bits(), true, count, raw.iter().copied())?,
        E::Uint4 | E::Uint2 => unpack(element.bits(), false, count, raw.iter().copied())?,
        _ => return None,
    })
}

/// ONNX keeps the small types in `int32_data` (one value, or one packed byte, an entry), the unsigned large ones in
/// `uint64_data`. The casts undo the widening that the writer did, so a negative entry of an unsigned type wraps back.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn integers_of_fields(element: ElementType, count: usize, fields: &TensorValuesProto) -> Option<Vec<i64>> {
    use ElementType as E;
    let narrow = &fields.int32_data;
    let each = |of: fn(i32) -> i64| right_length(narrow, count).map(|v| v.iter().map(|&v| of(v)).collect::<Vec<_>>());
    match element {
        E::Bool => each(|v| i64::from(v != 0)),
        E::Uint8 => each(|v| i64::from(v as u8)),
        E::Int8 => each(|v| i64::from(v as i8)),
        E::Uint16 => each(|v| i64::from(v as u16)),
        E::Int16 => each(|v| i64::from(v as i16)),
        E::Int32 => each(i64::from),
        E::Int4 | E::Int2 => unpack(element.bits(), true, count, narrow.iter().map(|&v| v as u8)),
        E::Uint4 | E::Uint2 => unpack(element.bits(), false, count, narrow.iter().map(|&v| v as u8)),
        E::Int64 => right_length(&fields.int64_data, count).map(<[i64]>::to_vec),
        E::Uint32 | E::Uint64 => {
            right_length(&fields.uint64_data, count).map(|v| v.iter().map(|&v| saturate(v)).collect())
        }
        _ => None,
    }
}

/// As [`integers_of_fields`] on what each type is kept in. `None` for strings.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn pack_fields(element: ElementType, fields: TensorValuesProto) -> Option<Vec<u8>> {
    use ElementType as E;
    Some(match element {
        E::Float | E::Complex64 => fields.float_data.into_iter().flat_map(f32::to_le_bytes).collect(),
        E::Double | E::Complex128 => fields.double_data.into_iter().flat_map(f64::to_le_bytes).collect(),
        E::Int64 => fields.int64_data.into_iter().flat_map(i64::to_le_bytes).collect(),
        E::Uint64 => fields.uint64_data.into_iter().flat_map(u64::to_le_bytes).collect(),
        E::Uint32 => fields.uint64_data.into_iter().flat_map(|v| (v as u32).to_le_bytes()).collect(),
        E::Int32 => fields.int32_data.into_iter().flat_map(i32::to_le_bytes).collect(),
        E::String => return None,
        _ if element.bits() == 16 => fields.int32_data.into_iter().flat_map(|v| (v as u16).to_le_bytes()).collect(),
        _ => fields.int32_data.into_iter().map(|v| v as u8).collect(),
    })
}

fn reals_of_raw(element: ElementType, count: usize, raw: &[u8]) -> Option<Vec<f64>> {
    use ElementType as E;
    Some(match element {
        E::Float => chunks(raw, count)?.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect(),
        E::Double => chunks(raw, count)?.iter().map(|&b| f64::from_le_bytes(b)).collect(),
        E::Float16 => chunks(raw, count)?.iter().map(|&b| half_to_f64(u16::from_le_bytes(b))).collect(),
        E::Bfloat16 => chunks(raw, count)?.iter().map(|&b| bfloat_to_f64(u16::from_le_bytes(b))).collect(),
        _ => return None,
    })
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn reals_of_fields(element: ElementType, count: usize, fields: TensorValuesProto) -> Option<Vec<f64>> {
    use ElementType as E;
    let patterns = |of: fn(u16) -> f64| {
        right_length(&fields.int32_data, count).map(|v| v.iter().map(|&v| of(v as u16)).collect::<Vec<_>>())
    };
    match element {
        E::Float => right_length(&fields.float_data, count).map(|v| v.iter().map(|&v| f64::from(v)).collect()),
        E::Double => (fields.double_data.len() == count).then_some(fields.double_data),
        E::Float16 => patterns(half_to_f64),
        E::Bfloat16 => patterns(bfloat_to_f64),
        _ => None,
    }
}

/// The value of an IEEE half-precision pattern.
pub(crate) fn half_to_f64(pattern: u16) -> f64 {
    let fraction = f64::from(pattern & 0x3ff);
    let magnitude = match (pattern >> 10) & 0x1f {
        0 => fraction * f64::from(2.0_f32.powi(-24)),
        0x1f if pattern & 0x3ff == 0 => f64::INFINITY,
        0x1f => f64::NAN,
        exponent => (1024.0 + fraction) * 2.0_f64.powi(i32::from(exponent) - 25),
    };
    if pattern & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// The value of a bfloat16 pattern: the upper half of a float.
pub(crate) fn bfloat_to_f64(pattern: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(pattern) << 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(element: ElementType, dims: &[i64], data: Payload) -> TensorDef {
        TensorDef { element: Some(element), dims: dims.to_vec(), data, ..TensorDef::default() }
    }

    fn raw(bytes: &[u8]) -> Payload {
        Payload::Raw(Bytes::copy_from_slice(bytes))
    }

    fn fields(values: TensorValuesProto) -> Payload {
        Payload::Fields(values.encode_to_vec().into())
    }

    #[test]
    fn counts() {
        let count = |dims: &[i64]| tensor(ElementType::Int4, dims, Payload::Missing).element_count();
        assert_eq!(count(&[]), Some(1));
        assert_eq!(count(&[2, 3]), Some(6));
        assert_eq!(count(&[i64::MAX, i64::MAX, i64::MAX]), Some(u128::MAX));
        assert_eq!(count(&[i64::MAX, i64::MAX, i64::MAX, 0]), Some(0));
        assert_eq!(count(&[2, -1]), None);
        assert_eq!(tensor(ElementType::Int4, &[3], Payload::Missing).stored_bytes(), Some(2));
        assert_eq!(tensor(ElementType::String, &[3], Payload::Missing).stored_bytes(), None);
    }

    #[test]
    fn raw_integers() {
        let of = |element, dims: &[i64], bytes: &[u8]| tensor(element, dims, raw(bytes)).integers(16);
        assert_eq!(of(ElementType::Int64, &[1], &(-2_i64).to_le_bytes()), Some(vec![-2]));
        assert_eq!(of(ElementType::Int64, &[2], &[0; 8]), None);
        assert_eq!(of(ElementType::Int64, &[1], &[0; 9]), None);
        assert_eq!(of(ElementType::Uint64, &[], &[0xff; 8]), Some(vec![i64::MAX]));
        assert_eq!(of(ElementType::Int8, &[2], &[0xff, 1]), Some(vec![-1, 1]));
        assert_eq!(of(ElementType::Bool, &[2], &[0, 1]), Some(vec![0, 1]));
        assert_eq!(of(ElementType::Int4, &[3], &[0x8f, 0x07]), Some(vec![-1, -8, 7]));
        assert_eq!(of(ElementType::Uint4, &[3], &[0x8f, 0x07]), Some(vec![15, 8, 7]));
        assert_eq!(of(ElementType::Int2, &[5], &[0b1110_0100, 0b11]), Some(vec![0, 1, -2, -1, -1]));
        assert_eq!(of(ElementType::Uint2, &[4], &[0b1110_0100]), Some(vec![0, 1, 2, 3]));
        assert_eq!(of(ElementType::Float, &[1], &[0; 4]), None);
        assert_eq!(of(ElementType::Int64, &[17], &[0; 136]), None);
    }

    #[test]
    fn field_integers() {
        let narrow = fields(TensorValuesProto { int32_data: vec![-1, 5], ..Default::default() });
        assert_eq!(tensor(ElementType::Int32, &[2], narrow.clone()).integers(9), Some(vec![-1, 5]));
        assert_eq!(tensor(ElementType::Uint8, &[2], narrow.clone()).integers(9), Some(vec![255, 5]));
        assert_eq!(tensor(ElementType::Int4, &[3], narrow.clone()).integers(9), Some(vec![-1, -1, 5]));
        assert_eq!(tensor(ElementType::Int32, &[3], narrow).integers(9), None);
        let wide = fields(TensorValuesProto { uint64_data: vec![u64::MAX], ..Default::default() });
        assert_eq!(tensor(ElementType::Uint64, &[], wide).integers(9), Some(vec![i64::MAX]));
        let long = fields(TensorValuesProto { int64_data: vec![7, -7], ..Default::default() });
        assert_eq!(tensor(ElementType::Int64, &[2], long).integers(9), Some(vec![7, -7]));
        assert_eq!(tensor(ElementType::Int64, &[1], Payload::Fields(Bytes::from_static(b"\xff"))).integers(9), None);
    }

    #[test]
    fn packed() {
        let of = |element, dims: &[i64], data| tensor(element, dims, data).packed(16).map(|bytes| bytes.to_vec());
        let narrow = fields(TensorValuesProto { int32_data: vec![-1, 5], ..Default::default() });
        assert_eq!(of(ElementType::Int8, &[2], narrow.clone()), Some(vec![255, 5]));
        assert_eq!(of(ElementType::Float16, &[2], narrow.clone()), Some(vec![255, 255, 5, 0]));
        assert_eq!(of(ElementType::Int4, &[3], narrow.clone()), Some(vec![255, 5]));
        assert_eq!(of(ElementType::Int8, &[3], narrow), None);
        assert_eq!(of(ElementType::Uint8, &[1], raw(&[9])), Some(vec![9]));
        let complex = fields(TensorValuesProto { float_data: vec![1.0, 2.0], ..Default::default() });
        assert_eq!(of(ElementType::Complex64, &[], complex).map(|bytes| bytes.len()), Some(8));
    }

    #[test]
    fn reals() {
        let of = |element, dims: &[i64], bytes: &[u8]| tensor(element, dims, raw(bytes)).reals(16);
        assert_eq!(of(ElementType::Float, &[1], &1.5_f32.to_le_bytes()), Some(vec![1.5]));
        assert_eq!(of(ElementType::Double, &[], &(-0.25_f64).to_le_bytes()), Some(vec![-0.25]));
        assert_eq!(of(ElementType::Float16, &[2], &[0x00, 0x3c, 0x01, 0x80]), Some(vec![1.0, -(2.0_f64.powi(-24))]));
        assert_eq!(of(ElementType::Float16, &[1], &[0x00, 0x7c]), Some(vec![f64::INFINITY]));
        assert_eq!(of(ElementType::Bfloat16, &[1], &[0x80, 0xbf]), Some(vec![-1.0]));
        let half = fields(TensorValuesProto { int32_data: vec![0x3c00], ..Default::default() });
        assert_eq!(tensor(ElementType::Float16, &[1], half).reals(1), Some(vec![1.0]));
        let float = fields(TensorValuesProto { float_data: vec![2.0, 3.0], ..Default::default() });
        assert_eq!(tensor(ElementType::Float, &[2], float).reals(2), Some(vec![2.0, 3.0]));
    }

    #[test]
    fn empty_and_missing() {
        assert_eq!(tensor(ElementType::Int64, &[0], Payload::Missing).integers(0), Some(vec![]));
        assert_eq!(tensor(ElementType::Float, &[4, 0], Payload::Missing).reals(0), Some(vec![]));
        assert_eq!(tensor(ElementType::String, &[0], Payload::Missing).strings(0), Some(vec![]));
        assert_eq!(tensor(ElementType::Int64, &[1], Payload::Missing).integers(9), None);
        let words = Payload::Strings(vec![Bytes::from_static(b"a")]);
        assert_eq!(tensor(ElementType::String, &[1], words.clone()).strings(1), Some(vec![Bytes::from_static(b"a")]));
        assert_eq!(tensor(ElementType::String, &[2], words).strings(9), None);
    }
}
