package gitops_test

import (
	"context"
	"os"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/federation/local"
)

// applier is the ServiceAccount as which Flux applies, in the namespace of the Kustomizations. It has to make ClusterRoles.
const applier = "flux-applier"

// startFlux runs Flux's controllers with the rights of their own work and no other: what they apply they apply as applier.
func (s *Stage) startFlux(ctx context.Context) error {
	everything := []rbacv1.PolicyRule{
		{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}, {NonResourceURLs: []string{"*"}, Verbs: []string{"*"}},
	}
	if _, err := s.account(ctx, system, applier, everything); err != nil {
		return err
	}
	archives, err := s.freeAddress()
	if err != nil {
		return err
	}
	storage := s.path("sources")
	if err := os.Mkdir(storage, 0o700); err != nil {
		return err
	}
	err = s.startController(ctx, "source-controller", []rbacv1.PolicyRule{
		rule("source.toolkit.fluxcd.io", "*", "get", "list", "watch", "patch", "update", "create", "delete"),
		rule("", "secrets", "get", "list", "watch"), rule("", "serviceaccounts", "get", "list", "watch"), rule("", "events", "create", "patch"),
	}, "--storage-path="+storage, "--storage-addr="+archives, "--storage-adv-addr="+archives)
	if err != nil {
		return err
	}
	return s.startController(ctx, "kustomize-controller", []rbacv1.PolicyRule{
		rule("kustomize.toolkit.fluxcd.io", "kustomizations", "get", "list", "watch", "patch", "update"),
		rule("kustomize.toolkit.fluxcd.io", "kustomizations/status", "get", "patch", "update"),
		rule("kustomize.toolkit.fluxcd.io", "kustomizations/finalizers", "update"),
		rule("source.toolkit.fluxcd.io", "*", "get", "list", "watch"),
		rule("", "secrets", "get", "list", "watch"),
		rule("", "configmaps", "get", "list", "watch"),
		rule("", "serviceaccounts", "get", "list", "watch", "impersonate"),
		rule("", "events", "create", "patch"),
	}, "--requeue-dependency=1s", "--default-service-account="+applier)
}

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

// startController runs a controller of Flux, as an account of its own.
func (s *Stage) startController(ctx context.Context, name string, rules []rbacv1.PolicyRule, arguments ...string) error {
	kubeconfig, err := s.account(ctx, "flux-system", name, rules)
	if err != nil {
		return err
	}
	path, err := local.BuiltProgram(name)
	if err != nil {
		return err
	}
	health, err := s.freeAddress()
	if err != nil {
		return err
	}
	arguments = append(arguments, "--watch-all-namespaces=true", "--enable-leader-election=false", "--metrics-addr=0", "--health-addr="+health)
	_, err = s.run(name, path, []string{"KUBECONFIG=" + kubeconfig, "RUNTIME_NAMESPACE=flux-system"}, arguments...)
	return err
}

// startCertManager runs cert-manager's controllers. They are not what is tested, so they may do everything.
func (s *Stage) startCertManager(context.Context) error {
	path, err := local.BuiltProgram("cert-manager")
	if err != nil {
		return err
	}
	_, err = s.run("cert-manager", path, nil, "--kubeconfig="+s.cluster.Kubeconfig())
	return err
}

// account makes a ServiceAccount that may do what the rules say everywhere, and gives its kubeconfig.
func (s *Stage) account(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule) (string, error) {
	meta := metav1.ObjectMeta{Name: "test-" + namespace + "-" + name}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		},
	} {
		if err := s.Create(ctx, object); err != nil {
			return "", err
		}
	}
	return s.kubeconfig(ctx, namespace, name)
}

// kubeconfig writes a kubeconfig with a token of a ServiceAccount, as its pods have one.
func (s *Stage) kubeconfig(ctx context.Context, namespace, name string) (string, error) {
	admin := s.cluster.RESTConfig()
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return "", err
	}
	token, err := clients.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	anonymous := rest.AnonymousClientConfig(admin)
	file := s.path(namespace + "-" + name + ".kubeconfig")
	return file, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"main": {
			Server: anonymous.Host, TLSServerName: anonymous.ServerName, CertificateAuthorityData: anonymous.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"main": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"main": {Cluster: "main", AuthInfo: "main"}},
		CurrentContext: "main",
	}, file)
}
