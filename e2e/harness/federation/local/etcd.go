package local

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// DialEtcd returns a client of the cluster's etcd with the identity of its API server. Callers read what the API server stored, without caches, delays
// and conversions, and must close the client.
func (c *Cluster) DialEtcd() (*clientv3.Client, error) {
	identity, err := tls.LoadX509KeyPair(c.layout.pki("etcd-client.crt"), c.layout.pki("etcd-client.key"))
	if err != nil {
		return nil, fmt.Errorf("read the etcd client certificate of cluster %s: %w", c.spec.Name, err)
	}
	authority, err := os.ReadFile(c.layout.pki("etcd-ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the etcd CA of cluster %s: %w", c.spec.Name, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{"https://" + c.ports[etcdClient].Address()}, Logger: zap.NewNop(),
		TLS:         &tls.Config{Certificates: []tls.Certificate{identity}, RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialTimeout: 5 * time.Second, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the etcd of cluster %s: %w", c.spec.Name, err)
	}
	return client, nil
}
