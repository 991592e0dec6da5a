//! Hash tables for names and ids. As safe against crafted keys as the standard ones (the seed is the process's own), and
//! several times as fast on short keys, of which a graph has many. Nothing may depend on their order.

use foldhash::fast::RandomState;

/// A map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A set.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;
