package install

import "github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"

// addresses are the addresses of a component's replicas. Replicas keep them across restarts.
type addresses []*port.Claim

func claimAddresses(replicas int) (addresses, error) {
	var claimed addresses
	for range replicas {
		one, err := port.NewClaim()
		if err != nil {
			claimed.release()
			return nil, err
		}
		claimed = append(claimed, one)
	}
	return claimed, nil
}

// all returns the addresses as host:port.
func (a addresses) all() []string {
	var all []string
	for _, one := range a {
		all = append(all, one.Address())
	}
	return all
}

func (a addresses) release() {
	for _, one := range a {
		one.Release()
	}
}
