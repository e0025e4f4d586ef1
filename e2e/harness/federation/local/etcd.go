package local

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// EtcdAccess gives the address of the cluster's etcd and the identity of its apiserver. It is for reading what the
// apiserver stored, below everything that may be cached, delayed or converted above it.
func (c *Cluster) EtcdAccess() (endpoint string, config *tls.Config, err error) {
	identity, err := tls.LoadX509KeyPair(c.layout.pki("etcd-client.crt"), c.layout.pki("etcd-client.key"))
	if err != nil {
		return "", nil, fmt.Errorf("read the identity of a client of etcd in cluster %s: %w", c.spec.Name, err)
	}
	authority, err := os.ReadFile(c.layout.pki("etcd-ca.crt"))
	if err != nil {
		return "", nil, fmt.Errorf("read the authority of etcd in cluster %s: %w", c.spec.Name, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return "", nil, fmt.Errorf("cluster %s: the authority of etcd is no certificate", c.spec.Name)
	}
	config = &tls.Config{Certificates: []tls.Certificate{identity}, RootCAs: roots, MinVersion: tls.VersionTLS12}
	return "https://" + c.ports[etcdClient].Address(), config, nil
}
