package local

import (
	"bytes"
	_ "embed"
	"fmt"
	"net"
	"os"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/pki"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
)

//go:embed kwok.yaml
var kwokConfiguration []byte

//go:embed scheduler.yaml
var schedulerConfiguration []byte

const (
	adminUser = "admin"
	// adminGroup has all permissions, independent of RBAC objects.
	adminGroup = "system:masters"
	kwokUser   = "kwok"
)

// writeIdentities creates the cluster's CAs, certificates and kubeconfigs. etcd has its own CA:
// with the cluster's CA, every API user could read etcd.
func (c *Cluster) writeIdentities() error {
	var err error
	if c.ca, err = pki.NewAuthority(c.spec.Name); err != nil {
		return err
	}
	if err := os.WriteFile(c.layout.pki("ca.crt"), c.ca.PEM, 0o600); err != nil {
		return err
	}
	serving, err := c.ca.Server("kube-apiserver", serverAddresses(), "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	if err := serving.Write(c.layout.pki(""), "apiserver"); err != nil {
		return err
	}
	// Any key pair works. Its certificate is not used.
	tokens, err := c.ca.Client("service-account")
	if err != nil {
		return err
	}
	if err := tokens.Write(c.layout.pki(""), "service-account"); err != nil {
		return err
	}
	if err := c.writeEtcdIdentities(); err != nil {
		return err
	}
	return c.writeUsers()
}

// serverAddresses returns the IP addresses of the servers of a cluster.
func serverAddresses() []net.IP { return []net.IP{net.ParseIP(port.Host), firstServiceIP()} }

func (c *Cluster) writeEtcdIdentities() error {
	ca, err := pki.NewAuthority(c.spec.Name + " etcd")
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.layout.pki("etcd-ca.crt"), ca.PEM, 0o600); err != nil {
		return err
	}
	serving, err := ca.Server("etcd", serverAddresses())
	if err != nil {
		return err
	}
	if err := serving.Write(c.layout.pki(""), "etcd"); err != nil {
		return err
	}
	client, err := ca.Client("kube-apiserver")
	if err != nil {
		return err
	}
	c.etcd, err = newProber(restConfig(c.ports[etcdHTTP].Address(), port.Host, ca.PEM, client))
	if err != nil {
		return err
	}
	return client.Write(c.layout.pki(""), "etcd-client")
}

// writeUsers gives each component the identity that Kubernetes' own RBAC rules expect of it.
func (c *Cluster) writeUsers() error {
	admin, err := c.clientConfig(adminUser, adminGroup)
	if err != nil {
		return err
	}
	c.admin = admin
	if c.api, err = newProber(admin); err != nil {
		return err
	}
	if err := writeKubeconfig(c.Kubeconfig(), kubeconfig(c.spec.Name, admin)); err != nil {
		return err
	}
	for file, user := range map[federation.Component]string{
		federation.ControllerManager: "system:kube-controller-manager",
		federation.Scheduler:         "system:kube-scheduler",
		federation.Kwok:              kwokUser,
	} {
		config, err := c.clientConfig(user)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(c.layout.kubeconfig(string(file)), kubeconfig(c.spec.Name, config)); err != nil {
			return err
		}
	}
	path := fmt.Appendf(nil, "%q", c.layout.kubeconfig(string(federation.Scheduler)))
	scheduler := bytes.ReplaceAll(schedulerConfiguration, []byte("KUBECONFIG"), path)
	if err := os.WriteFile(c.layout.config(federation.Scheduler), scheduler, 0o600); err != nil {
		return err
	}
	return os.WriteFile(c.layout.config(federation.Kwok), kwokConfiguration, 0o600)
}

func (c *Cluster) clientConfig(user string, groups ...string) (*rest.Config, error) {
	certificate, err := c.ca.Client(user, groups...)
	if err != nil {
		return nil, err
	}
	return restConfig(c.ports[apiServer].Address(), port.Host, c.ca.PEM, certificate), nil
}

// User returns a configuration and the path of a kubeconfig for a user with these groups. RBAC determines the
// user's permissions.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, string, error) {
	config, err := c.clientConfig(name, groups...)
	if err != nil {
		return nil, "", err
	}
	file, err := os.CreateTemp(c.layout.folder, "user-*.kubeconfig")
	if err != nil {
		return nil, "", err
	}
	if err := file.Close(); err != nil {
		return nil, "", err
	}
	return config, file.Name(), writeKubeconfig(file.Name(), kubeconfig(c.spec.Name, config))
}
