package local

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// EtcdAccess returns the address of the cluster's etcd and the identity of its API server. Callers read what the
// API server stored, without caches, delays and conversions.
func (c *Cluster) EtcdAccess() (endpoint string, config *tls.Config, err error) {
	identity, err := tls.LoadX509KeyPair(c.layout.pki("etcd-client.crt"), c.layout.pki("etcd-client.key"))
	if err != nil {
		return "", nil, fmt.Errorf("read the etcd client certificate of cluster %s: %w", c.spec.Name, err)
	}
	authority, err := os.ReadFile(c.layout.pki("etcd-ca.crt"))
	if err != nil {
		return "", nil, fmt.Errorf("read the etcd CA of cluster %s: %w", c.spec.Name, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return "", nil, fmt.Errorf("cluster %s: the CA file of etcd has no certificate", c.spec.Name)
	}
	config = &tls.Config{Certificates: []tls.Certificate{identity}, RootCAs: roots, MinVersion: tls.VersionTLS12}
	return "https://" + c.ports[etcdClient].Address(), config, nil
}
