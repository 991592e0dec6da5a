//! Conversions and operators.

use std::iter::{Product, Sum};
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::Dim;

macro_rules! from_int {
    ($($int:ty),*) => {$(
        impl From<$int> for Dim {
            fn from(value: $int) -> Self {
                Self::constant(i128::from(value))
            }
        }
    )*};
}

from_int!(i32, u32, i64, u64, i128);

impl From<usize> for Dim {
    fn from(value: usize) -> Self {
        Self::constant(i128::try_from(value).unwrap_or(i128::MAX))
    }
}

macro_rules! operator {
    ($op:ident, $method:ident, $assign:ident, $assign_method:ident, $a:ident, $b:ident => $result:expr) => {
        impl $op<&Dim> for &Dim {
            type Output = Dim;
            fn $method(self, other: &Dim) -> Dim {
                let ($a, $b) = (self, other);
                $result
            }
        }
        impl $op<Dim> for &Dim {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                self.$method(&other)
            }
        }
        impl $op<&Dim> for Dim {
            type Output = Dim;
            fn $method(self, other: &Dim) -> Dim {
                (&self).$method(other)
            }
        }
        impl $op<Dim> for Dim {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                (&self).$method(&other)
            }
        }
        impl $op<i128> for &Dim {
            type Output = Dim;
            fn $method(self, other: i128) -> Dim {
                self.$method(&Dim::constant(other))
            }
        }
        impl $op<i128> for Dim {
            type Output = Dim;
            fn $method(self, other: i128) -> Dim {
                (&self).$method(&Dim::constant(other))
            }
        }
        impl $assign<&Dim> for Dim {
            fn $assign_method(&mut self, other: &Dim) {
                *self = (&*self).$method(other);
            }
        }
        impl $assign<Dim> for Dim {
            fn $assign_method(&mut self, other: Dim) {
                *self = (&*self).$method(&other);
            }
        }
        impl $assign<i128> for Dim {
            fn $assign_method(&mut self, other: i128) {
                *self = (&*self).$method(other);
            }
        }
    };
}

operator!(Add, add, AddAssign, add_assign, a, b => a.add_dim(b));
operator!(Sub, sub, SubAssign, sub_assign, a, b => a.add_dim(&b.neg_dim()));
operator!(Mul, mul, MulAssign, mul_assign, a, b => a.mul_dim(b));

impl Neg for &Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        self.neg_dim()
    }
}

impl Neg for Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        self.neg_dim()
    }
}

impl Sum for Dim {
    fn sum<I: Iterator<Item = Dim>>(iter: I) -> Dim {
        iter.fold(Dim::ZERO, |a, b| a + b)
    }
}

impl<'a> Sum<&'a Dim> for Dim {
    fn sum<I: Iterator<Item = &'a Dim>>(iter: I) -> Dim {
        iter.fold(Dim::ZERO, |a, b| a + b)
    }
}

impl Product for Dim {
    fn product<I: Iterator<Item = Dim>>(iter: I) -> Dim {
        iter.fold(Dim::ONE, |a, b| a * b)
    }
}

impl<'a> Product<&'a Dim> for Dim {
    fn product<I: Iterator<Item = &'a Dim>>(iter: I) -> Dim {
        iter.fold(Dim::ONE, |a, b| a * b)
    }
}
