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

// identities are the certificates and client configurations of one cluster.
type identities struct {
	cluster string
	layout  layout
	ports   map[purpose]*port.Reservation

	ca    *pki.Authority
	admin *rest.Config
	etcd  *rest.Config // of the health endpoint
}

// write creates the cluster's CAs, certificates and kubeconfigs. etcd has its own CA:
// with the cluster's CA, every API user could read etcd.
func (i *identities) write() error {
	var err error
	if i.ca, err = pki.NewAuthority(i.cluster); err != nil {
		return err
	}
	if err := os.WriteFile(i.layout.pki("ca.crt"), i.ca.PEM, 0o600); err != nil {
		return err
	}
	serving, err := i.ca.Server("kube-apiserver", serverAddresses(), "kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	if err := serving.Write(i.layout.pki(""), "apiserver"); err != nil {
		return err
	}
	// Any key pair works. Its certificate is not used.
	tokens, err := i.ca.Client("service-account")
	if err != nil {
		return err
	}
	if err := tokens.Write(i.layout.pki(""), "service-account"); err != nil {
		return err
	}
	if err := i.writeEtcd(); err != nil {
		return err
	}
	return i.writeUsers()
}

// serverAddresses returns the IP addresses of the servers of a cluster.
func serverAddresses() []net.IP { return []net.IP{net.ParseIP(port.Host), firstServiceIP()} }

func (i *identities) writeEtcd() error {
	ca, err := pki.NewAuthority(i.cluster + " etcd")
	if err != nil {
		return err
	}
	if err := os.WriteFile(i.layout.pki("etcd-ca.crt"), ca.PEM, 0o600); err != nil {
		return err
	}
	serving, err := ca.Server("etcd", serverAddresses())
	if err != nil {
		return err
	}
	if err := serving.Write(i.layout.pki(""), "etcd"); err != nil {
		return err
	}
	client, err := ca.Client("kube-apiserver")
	if err != nil {
		return err
	}
	i.etcd = restConfig(i.ports[etcdHTTP].Address(), port.Host, ca.PEM, client)
	return client.Write(i.layout.pki(""), "etcd-client")
}

// writeUsers gives each component the identity that Kubernetes' own RBAC rules expect of it.
func (i *identities) writeUsers() error {
	admin, err := i.user(adminUser, adminGroup)
	if err != nil {
		return err
	}
	i.admin = admin
	if err := writeKubeconfig(i.layout.kubeconfig(adminUser), federation.Kubeconfig(i.cluster, admin)); err != nil {
		return err
	}
	for file, user := range map[federation.Component]string{
		federation.ControllerManager: "system:kube-controller-manager",
		federation.Scheduler:         "system:kube-scheduler",
		federation.Kwok:              kwokUser,
	} {
		config, err := i.user(user)
		if err != nil {
			return err
		}
		if err := writeKubeconfig(i.layout.kubeconfig(string(file)), federation.Kubeconfig(i.cluster, config)); err != nil {
			return err
		}
	}
	path := fmt.Appendf(nil, "%q", i.layout.kubeconfig(string(federation.Scheduler)))
	scheduler := bytes.ReplaceAll(schedulerConfiguration, []byte("KUBECONFIG"), path)
	if err := os.WriteFile(i.layout.config(federation.Scheduler), scheduler, 0o600); err != nil {
		return err
	}
	return os.WriteFile(i.layout.config(federation.Kwok), kwokConfiguration, 0o600)
}

func (i *identities) user(user string, groups ...string) (*rest.Config, error) {
	certificate, err := i.ca.Client(user, groups...)
	if err != nil {
		return nil, err
	}
	return restConfig(i.ports[apiServer].Address(), port.Host, i.ca.PEM, certificate), nil
}

// User returns a configuration and the path of a kubeconfig for a user with these groups. RBAC determines the
// user's permissions.
func (c *Cluster) User(name string, groups ...string) (*rest.Config, string, error) {
	config, err := c.identities.user(name, groups...)
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
	return config, file.Name(), writeKubeconfig(file.Name(), federation.Kubeconfig(c.spec.Name, config))
}
