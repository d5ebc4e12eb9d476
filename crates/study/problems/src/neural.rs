//! Small neural networks with hand-written gradients.

mod adam;
mod perceptron;

pub use adam::Adam;
pub use perceptron::{Perceptron, Sizes};
