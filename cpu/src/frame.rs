//! Registers: a column of lanes each, or one value where all lanes agree.

use crate::tensor::{Data, Element, Store};

/// A register: its storage and its number among those.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reg {
    pub store: Store,
    pub index: u32,
}

/// A type that registers hold.
pub trait Lane: Element {
    fn pool(frame: &Frame) -> &Vec<Vec<Self>>;
    fn pool_mut(frame: &mut Frame) -> &mut Vec<Vec<Self>>;
}

macro_rules! frame {
    ($($field:ident $variant:ident $ty:ty),+ $(,)?) => {
        /// The state of one worker: registers and counters.
        #[derive(Clone)]
        pub struct Frame {
            /// The number of lanes in use.
            pub n: usize,
            /// Values of the loop counters; of a counter that runs along the lanes, its value in the first.
            pub counters: Vec<i64>,
            /// Which instructions this machine has.
            pub arch: pulp::Arch,
            /// Whether no other workers are to be asked for help.
            pub alone: bool,
            /// Whether lanes with very different numbers of terms are to be given back.
            pub picky: bool,
            $($field: Vec<Vec<$ty>>,)+
        }
        $(impl Lane for $ty {
            #[inline(always)]
            fn pool(frame: &Frame) -> &Vec<Vec<Self>> { &frame.$field }
            #[inline(always)]
            fn pool_mut(frame: &mut Frame) -> &mut Vec<Vec<Self>> { &mut frame.$field }
        })+
        impl Frame {
            /// Registers as `layout` says (whether each varies from lane to lane), columns `width` long.
            pub fn new(layout: &Layout, counters: usize, width: usize) -> Frame {
                let len = |varying: &bool| if *varying { width } else { 1 };
                Frame {
                    n: 1,
                    counters: vec![0; counters],
                    arch: pulp::Arch::new(),
                    alone: true,
                    picky: false,
                    $($field: layout.$field.iter().map(|v| vec![<$ty>::default(); len(v)]).collect(),)+
                }
            }
        }
        /// Of each register whether it varies from lane to lane.
        #[derive(Clone, Debug, Default)]
        pub struct Layout { $($field: Vec<bool>,)+ }
        impl Layout {
            /// Another register.
            pub fn add(&mut self, store: Store, varying: bool) -> Reg {
                let list = match store { $(Store::$variant => &mut self.$field),+ };
                list.push(varying);
                Reg { store, index: list.len() as u32 - 1 }
            }
            /// Whether a register varies.
            pub fn varies(&self, reg: Reg) -> bool {
                match reg.store { $(Store::$variant => self.$field[reg.index as usize]),+ }
            }
        }
    };
}

frame! {
    u8s U8 u8, i8s I8 i8, i16s I16 i16, u16s U16 u16, i32s I32 i32, u32s U32 u32, i64s I64 i64, u64s U64 u64,
    f32s F32 f32, f64s F64 f64,
}

impl Frame {
    /// A register's lanes, or its one value.
    #[inline(always)]
    pub fn get<T: Lane>(&self, index: u32) -> &[T] {
        let lanes = &T::pool(self)[index as usize];
        if lanes.len() == 1 { lanes } else { &lanes[..self.n] }
    }
    /// Takes a register's lanes out, to be put back with [`Frame::put`].
    #[inline(always)]
    pub fn take<T: Lane>(&mut self, index: u32) -> Vec<T> {
        std::mem::take(&mut T::pool_mut(self)[index as usize])
    }
    /// Puts them back.
    #[inline(always)]
    pub fn put<T: Lane>(&mut self, index: u32, lanes: Vec<T>) {
        T::pool_mut(self)[index as usize] = lanes;
    }
    /// The value of a register that does not vary, or of the first lane.
    #[inline(always)]
    pub fn first<T: Lane>(&self, index: u32) -> T {
        T::pool(self)[index as usize][0]
    }
    /// Fills a register's lanes with elements from `start` on.
    pub fn load<T: Lane>(&mut self, index: u32, data: &Data, start: usize) {
        let n = self.n;
        if let Some(data) = T::slice(data) {
            T::pool_mut(self)[index as usize][..n].copy_from_slice(&data[start..start + n]);
        }
    }
    /// Stores a register's lanes as elements from `start` on.
    pub fn unload<T: Lane>(&self, index: u32, data: &mut Data, start: usize) {
        if let Some(data) = T::slice_mut(data) {
            data[start..start + self.n].copy_from_slice(&T::pool(self)[index as usize][..self.n]);
        }
    }
}
