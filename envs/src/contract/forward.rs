//! Macros that write methods which only call a method of the same name.

/// Implements methods by those of the same names of a field: `forward_to!(env: fn num_envs(&self) -> usize;)`.
macro_rules! forward_to {
    ($field:tt:) => {};
    ($field:tt: fn $name:ident(&mut $self:ident $(, $arg:ident: $type:ty)*) $(-> $out:ty)?; $($rest:tt)*) => {
        fn $name(&mut $self $(, $arg: $type)*) $(-> $out)? {
            $self.$field.$name($($arg),*)
        }
        $crate::contract::forward::forward_to!($field: $($rest)*);
    };
    ($field:tt: fn $name:ident(&$self:ident $(, $arg:ident: $type:ty)*) $(-> $out:ty)?; $($rest:tt)*) => {
        fn $name(&$self $(, $arg: $type)*) $(-> $out)? {
            $self.$field.$name($($arg),*)
        }
        $crate::contract::forward::forward_to!($field: $($rest)*);
    };
}

/// Implements methods by those of the same names of a trait that the type implements as well.
macro_rules! call_trait {
    ($trait:ident:) => {};
    ($trait:ident: fn $name:ident(&mut $self:ident $(, $arg:ident: $type:ty)*) $(-> $out:ty)?; $($rest:tt)*) => {
        fn $name(&mut $self $(, $arg: $type)*) $(-> $out)? {
            $trait::$name($self $(, $arg)*)
        }
        $crate::contract::forward::call_trait!($trait: $($rest)*);
    };
    ($trait:ident: fn $name:ident(&$self:ident $(, $arg:ident: $type:ty)*) $(-> $out:ty)?; $($rest:tt)*) => {
        fn $name(&$self $(, $arg: $type)*) $(-> $out)? {
            $trait::$name($self $(, $arg)*)
        }
        $crate::contract::forward::call_trait!($trait: $($rest)*);
    };
}

/// Declares methods in a trait.
macro_rules! declare {
    ($($methods:tt)*) => { $($methods)* };
}

/// Passes the methods that vector environments have with and without scalar types to a macro.
macro_rules! vector_methods {
    ($to:ident $($before:tt)*) => {
        $to! {
            $($before)*
            fn num_envs(&self) -> usize;
            fn observation_space(&self) -> &crate::Space;
            fn action_space(&self) -> &crate::Space;
            fn action_masks(&self, masks: &mut [bool]) -> bool;
            fn final_action_masks(&self, masks: &mut [bool]) -> bool;
            fn compute_rewards(&mut self, achieved_goals: &[f64], desired_goals: &[f64], rewards: &mut [f64]) -> crate::Result<bool>;
            fn info(&self, key: &str) -> Option<&[f64]>;
            fn info_value(&mut self, copy: usize, key: &str) -> crate::Result<Option<serde_json::Value>>;
            fn remarks(&mut self) -> crate::Result<Vec<String>>;
            fn max_episode_steps(&self) -> Option<usize>;
            fn limit_episodes(&mut self, steps: usize) -> bool;
            fn set_autoreset(&mut self, autoreset: bool) -> bool;
            fn set_task(&mut self, task: &serde_json::Value) -> crate::Result<()>;
            fn set_reset_options(&mut self, options: &crate::ResetOptions) -> crate::Result<()>;
            fn save_state(&self) -> crate::Result<Option<Vec<u8>>>;
            fn can_load_state(&self) -> bool;
            fn load_state(&mut self, state: &[u8]) -> crate::Result<()>;
            fn render(&mut self, copy: usize) -> crate::Result<Option<crate::Frame>>;
            fn render_fps(&self) -> Option<f64>;
            fn render_ansi(&mut self, copy: usize) -> crate::Result<Option<String>>;
        }
    };
}

/// Passes the methods that environments with several agents have with and without scalar types to a macro, without those
/// that a wrapper of observations or of groups changes.
macro_rules! agent_methods {
    ($to:ident $($before:tt)*) => {
        $to! {
            $($before)*
            fn set_reset_options(&mut self, options: &crate::ResetOptions) -> crate::Result<()>;
            fn render(&mut self) -> crate::Result<Option<crate::Frame>>;
            fn render_fps(&self) -> Option<f64>;
            fn save_state(&self) -> Option<Vec<u8>>;
            fn load_state(&mut self, state: &[u8]) -> crate::Result<()>;
        }
    };
}

pub(crate) use {agent_methods, call_trait, declare, forward_to, vector_methods};
