package join

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

type connectedCluster struct {
	// title is the display name. flag is the prefix of the flags that locate the cluster.
	title, flag string
	server      string
	// adminServer is the address that the administrator uses, and context the name of the administrator's context.
	adminServer, context string
	ca                   []byte
	serverName           string
	client               client.Client
	clientset            kubernetes.Interface
	// uid is the UID of the namespace kube-system.
	uid string
}

// link is the access of the components in one cluster to the other cluster.
type link struct {
	direction Direction
	// user is the cluster whose components use the kubeconfig. issuer is the cluster to which it leads.
	user, issuer *connectedCluster
	// secret is the name of the kubeconfig Secret in the user. token is the name prefix of the token Secrets in the issuer.
	secret, token string
	// account is the ServiceAccount in the issuer.
	account string
	// permissions are those that the components need in the issuer. group is the group and version of the API that they use there.
	permissions []permission
	group       string
}

func connect(ctx context.Context, c *Cluster, title, flag string) (*connectedCluster, error) {
	config := rest.CopyConfig(c.Config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("%s: %w", title, err)
	}
	s := &connectedCluster{
		title: title, flag: flag, server: config.Host, adminServer: config.Host, context: c.Context, ca: config.CAData, serverName: config.ServerName,
	}
	if c.CA != nil {
		s.ca = c.CA
	}
	if c.Server != "" {
		s.server, s.serverName = c.Server, ""
	}
	if address, err := url.Parse(s.server); err != nil || address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("%s: the address %q is not https://HOST[:PORT]: set another with --%s-server", title, s.server, flag)
	}
	if config.Insecure && c.CA == nil {
		return nil, fmt.Errorf("%s: the kubeconfig disables TLS verification, which is not acceptable for long-running components: set the CA "+
			"with --%s-ca", title, flag)
	}
	var err error
	if s.client, err = client.New(config, client.Options{Scheme: clusters.Scheme()}); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", title, err)
	}
	if s.clientset, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", title, err)
	}
	if s.uid, err = clusters.ClusterOf(ctx, s.clientset); err != nil {
		return nil, fmt.Errorf("identify the cluster of %s at %s: %w", title, config.Host, err)
	}
	return s, nil
}

// isLoopback reports whether the address of the cluster is valid only on one machine.
func (c *connectedCluster) isLoopback() bool {
	address, err := url.Parse(c.server)
	if err != nil {
		return false
	}
	ip := net.ParseIP(address.Hostname())
	return address.Hostname() == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// secretLabels returns the labels of every Secret that join creates.
func (o *Options) secretLabels(by string) map[string]string {
	return map[string]string{
		managedBy: Owner, v1alpha1.LabelJoinedCell: o.Cell, v1alpha1.LabelJoinedCore: o.CoreName, v1alpha1.LabelJoinedBy: by,
	}
}

// accessLinks returns the requested directions.
func (o *Options) accessLinks(core, worker *connectedCluster) []*link {
	var all []*link
	if o.Only != WorkerToCore {
		all = append(all, &link{
			direction: CoreToWorker, user: core, issuer: worker, secret: "cell-" + o.Cell, token: o.ServiceAccount + "-core-" + o.CoreName + "-",
			account: o.ServiceAccount, group: "v1", permissions: workerPermissions(),
		})
	}
	if o.Only != CoreToWorker {
		rights := corePermissions()
		if o.Scheduling {
			rights = append(rights, schedulingPermissions()...)
		}
		all = append(all, &link{
			direction: WorkerToCore, user: worker, issuer: core, secret: "core-" + o.CoreName, token: o.ServiceAccount + "-cell-" + o.Cell + "-",
			account: o.cellAccount(), group: v1alpha1.GroupVersion.String(), permissions: rights,
		})
	}
	return all
}

// requireAccount returns an error if the issuer lacks the ServiceAccount for the token and join cannot create it.
func (o *Options) requireAccount(ctx context.Context, l *link) error {
	if l.direction == WorkerToCore {
		if err := errors.Join(o.requireCellRole(ctx, l.issuer), o.requireIdentity(ctx, l)); err != nil {
			return err
		}
		return l.issuer.apply(ctx, o.accountObjects(), client.DryRunAll)
	}
	account := o.Namespace + "/" + l.account
	_, err := l.issuer.clientset.CoreV1().ServiceAccounts(o.Namespace).Get(ctx, l.account, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s has no ServiceAccount %s: install the chart breakwater there with role: worker (or single) and access.enabled: true, or set "+
			"another with --service-account and --namespace",
			l.issuer.title, account)
	}
	if err != nil {
		return fmt.Errorf("get ServiceAccount %s in %s: %w", account, l.issuer.title, err)
	}
	return nil
}

// tokens lists the Secrets of an issuer's tokens.
func (o *Options) tokens(ctx context.Context, l *link) ([]corev1.Secret, error) {
	list := &corev1.SecretList{}
	err := l.issuer.client.List(ctx, list, client.InNamespace(o.Namespace), client.MatchingLabels(maps.Clone(o.secretLabels(v1alpha1.JoinedByToken))))
	if err != nil {
		return nil, fmt.Errorf("list the tokens in %s: %w", l.issuer.title, err)
	}
	return list.Items, nil
}

// deleteTokens deletes tokens. They become invalid within seconds.
func (l *link) deleteTokens(ctx context.Context, tokens []corev1.Secret) error {
	var all []error
	for i := range tokens {
		if err := client.IgnoreNotFound(l.issuer.client.Delete(ctx, &tokens[i])); err != nil {
			all = append(all, fmt.Errorf("delete Secret %s/%s in %s, which keeps a token valid: %w", tokens[i].Namespace, tokens[i].Name, l.issuer.title, err))
		}
	}
	return errors.Join(all...)
}
