package state

// TaskHolder begins the holders of leases that are tasks of the service: they end with their task.
const TaskHolder = "task:"
