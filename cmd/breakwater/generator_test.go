package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestGeneratorRejectsInvalidFlags(t *testing.T) {
	kubeconfig := writeKubeconfig(t, testplane.Config(t))
	for claim, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"an invalid selector":              {[]string{"--workload-selector", "a=b=c"}, `--workload-selector "a=b=c": `},
		"an empty selector":                {[]string{"--workload-selector", ""}, "--workload-selector is empty"},
		"a kubeconfig that does not exist": {[]string{"--kubeconfig", "/nonexistent"}, `--kubeconfig: load kubeconfig "/nonexistent": `},
		"a missing context":                {[]string{"--kubeconfig", kubeconfig, "--context", "moon"}, `context "moon" does not exist`},
		"groups without a user":            {[]string{"--kubeconfig", kubeconfig, "--as-group", "a"}, "groups to impersonate need a user"},
		"a namespace that does not exist":  {[]string{"--kubeconfig", kubeconfig, "--leader-election-namespace", "moon"}, "--leader-election-namespace moon: "},
		"a metrics address without a port": {[]string{"--kubeconfig", kubeconfig, "--leader-elect=false", "--metrics-listen", "localhost"}, `--metrics-listen "localhost": `},
		"a profile address without a port": {[]string{"--kubeconfig", kubeconfig, "--leader-elect=false", "--profile-listen", "6060"}, `--profile-listen "6060": `},
		"a health address without a port":  {[]string{"--kubeconfig", kubeconfig, "--leader-elect=false", "--health-listen", "8081"}, `--health-listen "8081": `},
		"an unknown log format":            {[]string{"--kubeconfig", kubeconfig, "--leader-elect=false", "--log-format", "xml"}, `--log-format "xml": `},
		"arguments":                        {[]string{"web"}, "unknown command"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantError(t, c.want, append([]string{"generator"}, c.arguments...)...)
		})
	}
}

func TestOwnNamespace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if got, err := ownNamespace(file); err != nil || got != "breakwater-system" {
		t.Errorf("outside of a pod: %q, %v", got, err)
	}
	if err := os.WriteFile(file, []byte("protection\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ownNamespace(file); err != nil || got != "protection" {
		t.Errorf("in a pod: %q, %v", got, err)
	}
}

func TestGeneratorLifecycle(t *testing.T) {
	config := testplane.Config(t)
	namespace, elections := testplane.Namespace(t), testplane.Namespace(t)
	grant(t, "the-generator", elections)
	health, metrics := testplane.FreeAddress(t), testplane.FreeAddress(t)

	ctx, stop := context.WithCancel(t.Context())
	command := rootCommand()
	command.SetArgs([]string{"generator", "--kubeconfig", writeKubeconfig(t, config), "--as", "the-generator",
		"--leader-election-namespace", elections, "--health-listen", health, "--metrics-listen", metrics})
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	defer stop()

	eventually(t, "ready", func() string { return fetch("http://"+health+"/readyz", "ok") })
	eventually(t, "alive", func() string { return fetch("http://"+health+"/healthz", "ok") })

	app := map[string]string{"app": "web"}
	web := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace, Labels: map[string]string{v1alpha1.LabelProtect: "true"}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "web", Image: "web"}}}},
		},
	}
	clients := kubernetes.NewForConfigOrDie(config)
	if _, err := clients.AppsV1().Deployments(namespace).Create(ctx, web, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a protector", func() string {
		if err := admin.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "deployment-web"}, &v1alpha1.PodProtector{}); err != nil {
			return err.Error()
		}
		return ""
	})
	eventually(t, "metrics", func() string {
		return fetch("http://"+metrics+"/metrics", `breakwater_generator_protected_sources{kind="Deployment"} 1`)
	})
	eventually(t, "an event that names the leader", func() string {
		list, err := clients.CoreV1().Events(elections).List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return fmt.Sprint("no event; ", err)
		}
		return ""
	})

	stop()
	if err := <-ended; err != nil {
		t.Errorf("generator exited with %v", err)
	}
	lease, err := clients.CoordinationV1().Leases(elections).Get(t.Context(), generator.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("Lease is still held by %q, want it released", *lease.Spec.HolderIdentity)
	}
}

// grant gives a user exactly the permissions of the generator.
func grant(t *testing.T, user, elections string) {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(testplane.Config(t)).RbacV1()
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	meta := metav1.ObjectMeta{Name: user}
	_, err := client.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: roles.Rules(t, "generator")}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Roles(elections).Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: roles.Rules(t, "election")}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.RoleBindings(elections).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// fetch returns what is wrong with the response of a URL. It is empty for a 200 response that contains the text.
func fetch(url, text string) string {
	response, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	if response.StatusCode == http.StatusOK && strings.Contains(string(body), text) {
		return ""
	}
	return fmt.Sprint(response.Status, "\n", string(body))
}

// eventually waits for a condition. unmet returns the observed state, or an empty text on success.
func eventually(t *testing.T, claim string, unmet func() string) {
	t.Helper()
	testplane.Eventually(t, func() string {
		if seen := unmet(); seen != "" {
			return claim + "; last seen:\n" + seen
		}
		return ""
	})
}
