package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// SharderName returns the component name of the nth sharder, from 0.
func SharderName(n int) string { return "sharder-" + strconv.Itoa(n) }

// Sharders are replicas of a sharder behind one address, which the API server of a cluster calls for objects of its rings.
type Sharders struct {
	// Arguments are the arguments of each replica.
	Arguments [][]string

	addresses addresses
	balancer  *Balancer
}

// NewSharders prepares replicas for the cluster of a kubeconfig. Their certificate goes to a directory.
func NewSharders(folder, kubeconfig string, replicas int) (*Sharders, error) {
	serving, err := newCertificate()
	if err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(folder, "sharder."+name) }
	if err := errors.Join(os.WriteFile(file("crt"), serving.Certificate, 0o600), os.WriteFile(file("key"), serving.Key, 0o600),
		os.WriteFile(file("ca"), serving.authority, 0o600)); err != nil {
		return nil, fmt.Errorf("write the certificate of the sharders: %w", err)
	}
	s := &Sharders{}
	if s.addresses, err = claimAddresses(replicas); err != nil {
		return nil, err
	}
	if s.balancer, err = NewBalancer(s.addresses.all); err != nil {
		s.addresses.release()
		return nil, err
	}
	for _, address := range s.addresses.all() {
		s.Arguments = append(s.Arguments, []string{
			"sharder", "--kubeconfig=" + kubeconfig, "--listen=" + address, "--tls-cert=" + file("crt"), "--tls-key=" + file("key"),
			"--tls-ca=" + file("ca"), "--url=https://" + s.balancer.ExternalAddress(), "--leader-election-namespace=" + SystemNamespace,
		})
	}
	return s, nil
}

// StartSharders runs replicas for the cluster of a kubeconfig, and returns when all are ready.
func (p *Processes) StartSharders(ctx context.Context, program, kubeconfig string, replicas int) (*Sharders, error) {
	s, err := NewSharders(p.dir, kubeconfig, replicas)
	if err != nil {
		return nil, err
	}
	var wanted []component
	for n, arguments := range s.Arguments {
		wanted = append(wanted, component{name: SharderName(n), program: program, arguments: arguments})
	}
	if err := p.startAll(ctx, wanted); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the address, and releases the ports of the replicas. The sharders end with their Processes.
func (s *Sharders) Close() {
	s.balancer.Close()
	s.addresses.release()
}
