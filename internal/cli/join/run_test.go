package join_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/join"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// joiner returns a Joiner for the lab's clusters. The cell has the name of its namespace. out receives all messages.
func (l *fixture) joiner(change ...func(*join.Joiner)) (j *join.Joiner, out *bytes.Buffer) {
	out = &bytes.Buffer{}
	j = &join.Joiner{Out: out, Warn: out, Options: join.Options{
		Core: join.Cluster{Config: l.core.config}, Worker: join.Cluster{Config: l.worker.config},
		Cell: l.namespace, CoreName: "core", Namespace: l.namespace, ServiceAccount: l.account(),
	}}
	for _, c := range change {
		c(j)
	}
	return j, out
}

// join runs join, which must succeed.
func (l *fixture) join(change ...func(*join.Joiner)) string {
	l.Helper()
	j, out := l.joiner(change...)
	if err := j.Run(l.Context()); err != nil {
		l.Fatalf("%v\n%s", err, out)
	}
	return out.String()
}

// wantError runs join, which must fail and leave no Secrets.
func (l *fixture) wantError(want string, change ...func(*join.Joiner)) {
	l.Helper()
	j, out := l.joiner(change...)
	if err := j.Run(l.Context()); err == nil || !strings.Contains(err.Error(), want) {
		l.Errorf("error %v, want one that contains %q\n%s", err, want, out)
	}
	for words, p := range map[string]testCluster{"core": l.core, "worker": l.worker} {
		for _, secret := range l.secrets(p) {
			if secret.Labels["app.kubernetes.io/managed-by"] == join.Owner {
				l.Errorf("Secret %s was left in the %s", secret.Name, words)
			}
		}
	}
}

func (l *fixture) secrets(p testCluster) []corev1.Secret {
	l.Helper()
	list := &corev1.SecretList{}
	if err := p.admin.List(l.Context(), list, client.InNamespace(l.namespace)); err != nil {
		l.Fatal(err)
	}
	return list.Items
}

// tokens returns the names of the token Secrets in a cluster.
func (l *fixture) tokens(p testCluster) []string {
	l.Helper()
	var names []string
	for _, secret := range l.secrets(p) {
		if secret.Labels[v1alpha1.LabelJoinedBy] == v1alpha1.JoinedByToken {
			names = append(names, secret.Name)
		}
	}
	return names
}

// secretsLabeled returns a client with the kubeconfig of a Secret.
func (l *fixture) secretsLabeled(p testCluster, name string) client.Client {
	l.Helper()
	secret := &corev1.Secret{}
	if err := p.admin.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: name}, secret); err != nil {
		l.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		l.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		l.Fatal(err)
	}
	return c
}

func (l *fixture) workerKubeconfig() client.Client {
	return l.secretsLabeled(l.core, "cell-"+l.namespace)
}
func (l *fixture) coreKubeconfig() client.Client { return l.secretsLabeled(l.worker, "core-core") }

func (l *fixture) cell() *v1alpha1.Cell {
	l.Helper()
	cell := &v1alpha1.Cell{}
	if err := l.core.admin.Get(l.Context(), client.ObjectKey{Name: l.namespace}, cell); err != nil {
		l.Fatal(err)
	}
	return cell
}

// wantRevoked waits until an API server rejects the credentials of a client, which can take some seconds.
func (l *fixture) wantRevoked(words string, c client.Client) {
	l.Helper()
	l.eventually(func() string {
		err := c.Create(l.Context(), &authenticationv1.SelfSubjectReview{})
		if apierrors.IsUnauthorized(err) {
			return ""
		}
		return fmt.Sprintf("%s: request with a revoked token: %v, want Unauthorized", words, err)
	})
}

func (l *fixture) wantUser(words string, c client.Client, account string) {
	l.Helper()
	review := &authenticationv1.SelfSubjectReview{}
	want := "system:serviceaccount:" + l.namespace + ":" + account
	if err := c.Create(l.Context(), review); err != nil || review.Status.UserInfo.Username != want {
		l.Errorf("%s: %v, user %q, want %q", words, err, review.Status.UserInfo.Username, want)
	}
}

func TestJoinGrantsLeastAccess(t *testing.T) {
	l := newFixture(t)
	out := l.join()
	for _, want := range []string{
		"core-to-worker: Secret " + l.namespace + "/cell-" + l.namespace + " in the core", "worker-to-core: Secret " + l.namespace + "/core-core in the worker",
		"does not expire", "works only on this machine", "--core-server", "--worker-server", "until it is Connected", "cores: [{name: core}]",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
	worker, core := l.workerKubeconfig(), l.coreKubeconfig()
	l.wantUser("the core's", worker, l.account())
	l.wantUser("the worker's", core, l.ownAccount())
	for claim, err := range map[string]error{
		"pods of the worker":     worker.List(t.Context(), &corev1.PodList{}),
		"protectors of the core": core.List(t.Context(), &v1alpha1.PodProtectorList{}),
	} {
		if err != nil {
			t.Errorf("%s: %v", claim, err)
		}
	}
	for claim, err := range map[string]error{
		"Secrets of the worker":   worker.List(t.Context(), &corev1.SecretList{}, client.InNamespace(l.namespace)),
		"deletions in the worker": worker.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(l.namespace)),
		"Secrets of the core":     core.List(t.Context(), &corev1.SecretList{}, client.InNamespace(l.namespace)),
		"deletions in the core":   core.DeleteAllOf(t.Context(), &v1alpha1.PodProtector{}, client.InNamespace(l.namespace)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want Forbidden", claim, err)
		}
	}
	// Connect as the components of the core do.
	system := &corev1.Namespace{}
	if err := l.worker.admin.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		t.Fatal(err)
	}
	if _, uid, err := clusters.Connect(t.Context(), l.core.admin, l.cell(), "test"); err != nil || uid != string(system.UID) {
		t.Errorf("Cell is connected to %q: %v, want %q", uid, err, system.UID)
	}
}

func TestRejoinRevokesPreviousTokens(t *testing.T) {
	l := newFixture(t)
	l.join()
	worker, core := l.workerKubeconfig(), l.coreKubeconfig()

	out := l.join(func(j *join.Joiner) { j.KeepOld = true })
	if n := len(l.tokens(l.core)) + len(l.tokens(l.worker)); n != 4 || strings.Count(out, "keeps a previous token valid") != 2 {
		t.Errorf("%d of 4 tokens are kept:\n%s", n, out)
	}
	l.wantUser("kept in the worker", worker, l.account())
	l.wantUser("kept in the core", core, l.ownAccount())

	out = l.join(func(j *join.Joiner) { j.Grace = time.Millisecond })
	if len(l.tokens(l.core)) != 1 || len(l.tokens(l.worker)) != 1 || !strings.Contains(out, "Revoked previous tokens: 4.") {
		t.Errorf("tokens %v in the core and %v in the worker, want one in each:\n%s", l.tokens(l.core), l.tokens(l.worker), out)
	}
	l.wantRevoked("the worker", worker)
	l.wantRevoked("the core", core)
	l.wantUser("new in the worker", l.workerKubeconfig(), l.account())
	l.wantUser("new in the core", l.coreKubeconfig(), l.ownAccount())
}

func TestExpiringTokens(t *testing.T) {
	l := newFixture(t)
	began := time.Now()
	out := l.join(func(j *join.Joiner) { j.Lifetime = time.Hour })
	_, rest, ok := strings.Cut(out, "is valid until ")
	until, err := time.Parse(time.RFC3339, strings.SplitN(rest, ".", 2)[0])
	if !ok || err != nil || until.Before(began.Add(59*time.Minute)) || until.After(time.Now().Add(time.Hour)) || !strings.Contains(out, "renew it before then") {
		t.Errorf("until %s (%v), want in an hour:\n%s", until, err, out)
	}
	worker := l.workerKubeconfig()
	l.wantUser("the core's", worker, l.account())
	j, _ := l.joiner(func(j *join.Joiner) { j.Only = join.CoreToWorker })
	if err := j.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.wantRevoked("the worker", worker)
	l.wantUser("the worker's, which was not to be revoked", l.coreKubeconfig(), l.ownAccount())
}

func TestRevokeKeepsOnlyCell(t *testing.T) {
	l := newFixture(t)
	l.join()
	worker, core := l.workerKubeconfig(), l.coreKubeconfig()
	j, out := l.joiner()
	if err := j.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []testCluster{l.core, l.worker} {
		if secrets := l.secrets(p); len(secrets) > 0 {
			t.Errorf("%d Secrets are left, such as %s", len(secrets), secrets[0].Name)
		}
	}
	l.wantRevoked("the worker", worker)
	l.wantRevoked("the core", core)
	l.cell()
	for _, want := range []string{"revoked 1 token in the worker", "Cell " + l.namespace + " was not deleted", "the webhook denies removals of " +
		"protected pods there"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, out)
		}
	}
}

func TestRevokeKeepsForeignKubeconfig(t *testing.T) {
	l := newFixture(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "core-core"}, Data: map[string][]byte{"kubeconfig": []byte("theirs")}}
	l.create(l.worker, theirs)
	j, out := l.joiner()
	if err := j.Revoke(t.Context()); err != nil || !strings.Contains(out.String(), "was not created by join, and was not deleted") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := l.worker.admin.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil {
		t.Error(err)
	}
}

func TestJoinKeepsOtherCellFields(t *testing.T) {
	l := newFixture(t)
	made := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	made.Spec.Namespaces, made.Spec.WhenStale = []string{"shop"}, v1alpha1.WhenStaleDiscount
	l.create(l.core, made)
	l.join()
	got := l.cell().Spec
	want := v1alpha1.KubeconfigSecretRef{Namespace: l.namespace, Name: "cell-" + l.namespace, Key: "kubeconfig"}
	if got.KubeconfigSecretRef == nil || *got.KubeconfigSecretRef != want || len(got.Namespaces) != 1 || got.WhenStale != v1alpha1.WhenStaleDiscount {
		t.Errorf("Cell is %+v", got)
	}
}

func TestOneDirectionWithoutCell(t *testing.T) {
	l := newFixture(t)
	l.join(func(j *join.Joiner) { j.Only, j.NoCell = join.CoreToWorker, true })
	if len(l.tokens(l.core)) > 0 || len(l.secrets(l.core)) != 1 || len(l.tokens(l.worker)) != 1 || len(l.secrets(l.worker)) != 1 {
		t.Errorf("%d Secrets in the core, %d in the worker, want the kubeconfig and the token", len(l.secrets(l.core)), len(l.secrets(l.worker)))
	}
	if err := l.core.admin.Get(t.Context(), client.ObjectKey{Name: l.namespace}, &v1alpha1.Cell{}); !apierrors.IsNotFound(err) {
		t.Errorf("get of the Cell: %v, want NotFound", err)
	}
}

func TestPrintWritesNothing(t *testing.T) {
	l := newFixture(t)
	printed := &bytes.Buffer{}
	out := l.join(func(j *join.Joiner) { j.Print = printed })
	for _, want := range []string{"kind: Cell", "kind: Secret", "name: cell-" + l.namespace, "name: core-core", "# for the core", "# for the worker"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("output does not contain %q:\n%s", want, printed)
		}
	}
	if len(l.secrets(l.core)) != 1 || len(l.secrets(l.worker)) != 1 || !strings.Contains(out, "treat it as a password") {
		t.Errorf("%d Secrets in the core, %d in the worker, want one token in each\n%s", len(l.secrets(l.core)), len(l.secrets(l.worker)), out)
	}
}
