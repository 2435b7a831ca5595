//! One contract, three layouts, the first of them with and without folders at the beginning: what every log of a
//! partition does, whatever files it lies in. A layout is added by passing this.

mod crash;
mod damage;
mod in_memory;
mod keys;
mod node;
mod replicated;
mod rolls;
mod rules;

/// Runs a test for each layout.
#[macro_export]
macro_rules! in_every_layout {
    ($($name:ident)*) => { $(
        mod $name {
            #[test]
            fn partition() {
                super::$name($crate::node::Layout::Partition);
            }
            #[test]
            fn partition_without_a_folder() {
                super::$name($crate::node::Layout::Lazy);
            }
            #[test]
            fn topic() {
                super::$name($crate::node::Layout::Topic);
            }
            #[test]
            fn shared() {
                super::$name($crate::node::Layout::Shared);
            }
        }
    )* };
}
