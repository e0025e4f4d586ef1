package federation

// Members are the clusters of a federation, in the order of its topology. Backends embed them.
type Members[C Cluster] []C

// Cluster returns a cluster by its name in the topology.
func (m Members[C]) Cluster(name string) (Cluster, bool) {
	for _, c := range m {
		if c.Name() == name {
			return c, true
		}
	}
	return nil, false
}

// Clusters returns all clusters in the order of the topology.
func (m Members[C]) Clusters() []Cluster { return m.withRole(func(C) bool { return true }) }

// Cores returns the clusters that hold protectors.
func (m Members[C]) Cores() []Cluster { return m.withRole(func(c C) bool { return c.HasRole(Core) }) }

// Workers returns the clusters that run pods.
func (m Members[C]) Workers() []Cluster {
	return m.withRole(func(c C) bool { return c.HasRole(Worker) })
}

func (m Members[C]) withRole(role func(C) bool) []Cluster {
	var clusters []Cluster
	for _, c := range m {
		if role(c) {
			clusters = append(clusters, c)
		}
	}
	return clusters
}
