//! A block of points in a flat buffer.

/// An n×d block of points, row-major: point i is the slice `row(i)` of length d.
///
/// Crates pass batches of inputs in this container. A row is contiguous, so a single point is a
/// `&[f64]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    dim: usize,
    data: Vec<f64>,
}

impl Points {
    /// Creates an empty block of points with `dim` coordinates each.
    ///
    /// # Panics
    /// If `dim` is 0.
    pub fn new(dim: usize) -> Self {
        assert!(dim > 0, "points need at least one coordinate");
        Self { dim, data: Vec::new() }
    }

    /// Creates a block from a flat row-major buffer of n·`dim` numbers.
    ///
    /// # Panics
    /// If the length is not a multiple of `dim`, or `dim` is 0.
    pub fn from_flat(dim: usize, data: Vec<f64>) -> Self {
        assert!(
            dim > 0 && data.len().is_multiple_of(dim),
            "{} numbers do not make points of dimension {dim}",
            data.len()
        );
        Self { dim, data }
    }

    /// Collects rows of equal length.
    ///
    /// # Panics
    /// If the length of a row is not `dim`.
    pub fn from_rows<R: AsRef<[f64]>>(dim: usize, rows: impl IntoIterator<Item = R>) -> Self {
        let mut points = Self::new(dim);
        for row in rows {
            points.push(row.as_ref());
        }
        points
    }

    /// Appends a point.
    ///
    /// # Panics
    /// If the length of the point is not `dim()`.
    pub fn push(&mut self, point: &[f64]) {
        assert_eq!(
            point.len(),
            self.dim,
            "a point of dimension {} in a block of dimension {}",
            point.len(),
            self.dim
        );
        self.data.extend_from_slice(point);
    }

    /// Returns the number of coordinates per point (d).
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the number of points (n).
    pub fn len(&self) -> usize {
        self.data.len() / self.dim
    }

    /// Returns true if there are no points.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Returns point `index`.
    ///
    /// # Panics
    /// If `index` is out of range.
    pub fn row(&self, index: usize) -> &[f64] {
        &self.data[index * self.dim..(index + 1) * self.dim]
    }

    /// Iterates over the points in order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f64> {
        self.data.chunks_exact(self.dim)
    }

    /// Returns the flat row-major buffer of n·d numbers.
    pub fn as_flat(&self) -> &[f64] {
        &self.data
    }
}
