"""Show a trace in a viewer on this machine: TensorBoard's profile plugin, or an offline Perfetto UI."""
