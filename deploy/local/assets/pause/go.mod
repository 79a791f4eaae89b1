// The process that holds the namespaces of a pod.
module aim.eai.amd.com/assets/pause

go 1.24.0
