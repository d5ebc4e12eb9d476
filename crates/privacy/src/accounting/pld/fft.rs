//! Discrete Fourier transforms with a power-of-two length, simple enough to bound the rounding
//! error.

use std::f64::consts::TAU;
use std::ops::{Add, Mul, Sub};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    pub(super) const ONE: Self = Self { re: 1.0, im: 0.0 };

    pub(super) fn conj(self) -> Self {
        Self { re: self.re, im: -self.im }
    }

    pub(super) fn scaled(self, by: f64) -> Self {
        Self { re: self.re * by, im: self.im * by }
    }

    /// Returns the number multiplied by i.
    pub(super) fn turned(self) -> Self {
        Self { re: -self.im, im: self.re }
    }

    pub(super) fn norm(self) -> f64 {
        (self.re * self.re + self.im * self.im).sqrt()
    }
}

impl Add for Complex {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

/// The transforms of one length: X_k = Σ_j x_j exp(−2πi jk/n).
///
/// Stockham's algorithm, radix 4. On the way from an input to an output, a term is multiplied by at
/// most ½ log2 n roots of unity and takes part in log2 n sums, so |error of X_k| ≤ γ Σ_j |x_j| with
/// γ from [`Fft::defect`].
pub(super) struct Fft {
    roots: Vec<Complex>,
}

impl Fft {
    /// Creates transforms of length n = `len`, a power of two.
    pub(super) fn new(len: usize) -> Self {
        assert!(len.is_power_of_two(), "the length {len} is not a power of two");
        let unit = -TAU / len as f64;
        let root = |k: usize| {
            let (im, re) = (unit * k as f64).sin_cos();
            Complex { re, im }
        };
        Self { roots: (0..len).map(root).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.roots.len()
    }

    /// Returns γ. With u = 2⁻⁵³, a product with a root adds √5 u and the root's own error 4u (its
    /// angle is rounded), and a sum adds u.
    pub(super) fn defect(&self) -> f64 {
        8.0 * (f64::EPSILON / 2.0) * (f64::from(self.len().ilog2()) + 2.0)
    }

    /// Transforms `x` in place; `y` is scratch space of the same length.
    pub(super) fn forward(&self, x: &mut Vec<Complex>, y: &mut Vec<Complex>) {
        let n_all = self.len();
        assert!(x.len() == n_all && y.len() == n_all, "one length for all");
        let (mut n, mut stride) = (n_all, 1);
        while n >= 4 {
            let m = n / 4;
            for p in 0..m {
                let (w1, w2, w3) = (
                    self.roots[p * stride],
                    self.roots[2 * p * stride],
                    self.roots[3 * p * stride],
                );
                let input = |k: usize| &x[stride * (p + k * m)..][..stride];
                let (a, b, c, d) = (input(0), input(1), input(2), input(3));
                let (out0, rest) = y[stride * 4 * p..][..4 * stride].split_at_mut(stride);
                let (out1, rest) = rest.split_at_mut(stride);
                let (out2, out3) = rest.split_at_mut(stride);
                for q in 0..stride {
                    let (plus, minus) = (a[q] + c[q], a[q] - c[q]);
                    let (other, turned) = (b[q] + d[q], (b[q] - d[q]).turned());
                    out0[q] = plus + other;
                    out1[q] = w1 * (minus - turned);
                    out2[q] = w2 * (plus - other);
                    out3[q] = w3 * (minus + turned);
                }
            }
            std::mem::swap(x, y);
            n /= 4;
            stride *= 4;
        }
        if n == 2 {
            for q in 0..stride {
                let (a, b) = (x[q], x[q + stride]);
                y[q] = a + b;
                y[q + stride] = a - b;
            }
            std::mem::swap(x, y);
        }
    }

    /// Inverts the transform: x_j = (1/n) Σ_k X_k exp(2πi jk/n).
    pub(super) fn inverse(&self, x: &mut Vec<Complex>, y: &mut Vec<Complex>) {
        for value in x.iter_mut() {
            *value = value.conj();
        }
        self.forward(x, y);
        let by = 1.0 / self.len() as f64;
        for value in x.iter_mut() {
            *value = value.conj().scaled(by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_the_sum_that_defines_it_and_the_inverse_undoes_it() {
        for len in [1_usize, 2, 4, 8, 32, 64, 512] {
            let fft = Fft::new(len);
            let x: Vec<Complex> = (0..len)
                .map(|j| Complex {
                    re: ((j * j + 3) % 17) as f64 / 17.0,
                    im: ((7 * j + 1) % 11) as f64 / 11.0,
                })
                .collect();
            let size: f64 = x.iter().map(|value| value.norm()).sum();
            let mut found = x.clone();
            let mut scratch = x.clone();
            fft.forward(&mut found, &mut scratch);
            for (k, &value) in found.iter().enumerate() {
                let mut sum = Complex::default();
                for (j, &term) in x.iter().enumerate() {
                    let (im, re) = (-TAU * ((j * k) % len) as f64 / len as f64).sin_cos();
                    sum = sum + term * Complex { re, im };
                }
                let missed = (value - sum).norm();
                assert!(missed <= 2.0 * fft.defect() * size, "{len} {k} {missed}");
            }
            fft.inverse(&mut found, &mut scratch);
            for (back, &term) in found.iter().zip(&x) {
                assert!((*back - term).norm() <= 2.0 * fft.defect() * size);
            }
        }
    }
}
