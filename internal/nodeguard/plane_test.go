package nodeguard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"

	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a node with a guard and a kubelet that only watches its pods.
type fixture struct {
	testing.TB
	node, namespace string
	dir             string
	options         nodeguard.Options
	// admin talks to the API server, kubelet to the guard.
	admin   *kubernetes.Clientset
	kubelet *kubernetes.Clientset
	stop    func()
}

func newFixture(t testing.TB, contentType string) *fixture {
	t.Helper()
	f := &fixture{TB: t, namespace: testplane.Namespace(t), dir: t.TempDir()}
	f.node = "node-of-" + f.namespace
	config := testplane.Config(t)
	f.admin = kubernetes.NewForConfigOrDie(config)
	account := f.account(config)
	_, err := f.admin.CoreV1().ServiceAccounts(f.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	f.must(err)
	cert, token := filepath.Join(f.dir, "kubelet-client-current.pem"), filepath.Join(f.dir, "token")
	f.must(os.WriteFile(cert, slices.Concat(config.CertData, config.KeyData), 0o600))
	f.must(os.WriteFile(token, []byte(account.BearerToken), 0o600))
	kubeconfig := filepath.Join(f.dir, "kubelet.conf")
	f.must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificate: cert, ClientKey: cert}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, kubeconfig))
	_, port, err := net.SplitHostPort(testplane.FreeAddress(t))
	f.must(err)
	f.options = nodeguard.Options{
		Node: f.node, Kubeconfig: kubeconfig, Dir: filepath.Join(f.dir, "state"), Listen: "127.0.0.1:" + port, TokenFile: token,
		Namespace: f.namespace, Retention: time.Hour, Log: logr.Discard(),
	}
	if testing.Verbose() {
		f.options.Log = testr.NewWithInterface(t, testr.Options{})
	}
	_, port, err = net.SplitHostPort(testplane.FreeAddress(t))
	f.must(err)
	f.options.MetricsListen = "127.0.0.1:" + port
	_, err = f.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node}}, metav1.CreateOptions{})
	f.must(err)
	f.protect("app=web")
	f.start()
	trusted, err := nodeguard.EnsureCertificate(f.options.Dir, time.Now())
	f.must(err)
	f.kubelet = kubernetes.NewForConfigOrDie(&rest.Config{
		Host: "https://" + f.options.Listen, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType, AcceptContentTypes: contentType},
		TLSClientConfig: rest.TLSClientConfig{CAData: trusted, CertFile: cert, KeyFile: cert},
	})
	return f
}

// account creates the account of the guard, with the permissions that the chart gives it.
func (f *fixture) account(config *rest.Config) *rest.Config {
	f.Helper()
	meta, rbac := metav1.ObjectMeta{Namespace: f.namespace, Name: "guard-" + f.namespace}, f.admin.RbacV1()
	_, err := rbac.ClusterRoles().Create(f.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Rules: roles.Rules(f, "node")}, metav1.CreateOptions{})
	f.must(err)
	_, err = rbac.Roles(f.namespace).Create(f.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: roles.Rules(f, "node.local", roles.Template("breakwater.fullname", "guard"))}, metav1.CreateOptions{})
	f.must(err)
	_, err = rbac.RoleBindings(f.namespace).Create(f.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: f.namespace, Name: "guard-node"}},
	}, metav1.CreateOptions{})
	f.must(err)
	return testplane.AsServiceAccount(f.TB, config, f.namespace, "guard-node", meta.Name)
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// protect publishes that pods of a selector are protected, as an aggregator does.
func (f *fixture) protect(selector string) {
	f.Helper()
	parsed, err := metav1.ParseToLabelSelector(selector)
	f.must(err)
	raw, err := json.Marshal([]podhold.Protected{{Namespace: f.namespace, Name: "web", Selector: parsed}})
	f.must(err)
	_, err = f.admin.CoreV1().ConfigMaps(f.namespace).Create(f.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "protected", Labels: map[string]string{podhold.LabelProtected: "protected"}},
		Data:       map[string]string{podhold.ProtectedKey: string(raw)},
	}, metav1.CreateOptions{})
	f.must(err)
}

// start starts the guard, and stops it when the test ends.
func (f *fixture) start() {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	f.options.Ready = func(net.Addr) { close(ready) }
	go func() { ended <- nodeguard.Run(ctx, f.options) }()
	select {
	case <-ready:
	case err := <-ended:
		f.Fatalf("the guard ended: %v", err)
	}
	f.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	f.Cleanup(f.stop)
	testplane.Eventually(f.TB, func() string {
		if _, err := os.Stat(filepath.Join(f.options.Dir, "pods", "protected.json")); err != nil {
			return err.Error()
		}
		return ""
	})
}

// run creates a pod on the node, with a container that runs.
func (f *fixture) run(name, app string) *corev1.Pod {
	f.Helper()
	return f.runWith(name, app, func(*corev1.Pod) {})
}

func (f *fixture) runWith(name, app string, change func(*corev1.Pod)) *corev1.Pod {
	f.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Spec:       corev1.PodSpec{NodeName: f.node, ServiceAccountName: "default", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	change(p)
	p, err := f.admin.CoreV1().Pods(f.namespace).Create(f.Context(), p, metav1.CreateOptions{})
	f.must(err)
	started := true
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", ContainerID: "containerd://1", Ready: true, Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	p, err = f.admin.CoreV1().Pods(f.namespace).UpdateStatus(f.Context(), p, metav1.UpdateOptions{})
	f.must(err)
	return p
}

// seen is what a kubelet would run: every change of the set of its pods.
type seen struct {
	mu   sync.Mutex
	pods map[types.UID]*corev1.Pod
	// gone has the pods that disappeared without having been seen with a deletionTimestamp.
	gone []string
}

func (s *seen) replace(objects []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := map[types.UID]*corev1.Pod{}
	for _, o := range objects {
		now[o.(*corev1.Pod).UID] = o.(*corev1.Pod)
	}
	for uid, p := range s.pods {
		if now[uid] == nil && p.DeletionTimestamp == nil {
			s.gone = append(s.gone, p.Name)
		}
	}
	s.pods = now
}

// problem returns a text unless the kubelet sees these pods, by UID, and lost those.
func (s *seen) problem(pods []types.UID, gone ...string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var got []types.UID
	for uid := range s.pods {
		got = append(got, uid)
	}
	slices.Sort(got)
	slices.Sort(pods)
	if !slices.Equal(got, pods) || !slices.Equal(s.gone, gone) {
		return fmt.Sprintf("the kubelet sees %v and lost %v, want %v and %v", got, s.gone, pods, gone)
	}
	return ""
}

// listWatcher lists before it watches, unless streams is set.
type listWatcher struct {
	*cache.ListWatch
	streams bool
}

func (l listWatcher) IsWatchListSemanticsUnSupported() bool { return !l.streams }

// watch runs the part of a kubelet that learns what to run, until the test ends.
func (f *fixture) watch(streams bool) *seen {
	s := &seen{}
	lw := cache.NewListWatchFromClient(
		f.kubelet.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.OneTermEqualSelector("spec.nodeName", f.node))
	reflector := cache.NewReflectorWithOptions(listWatcher{lw, streams}, &corev1.Pod{}, cache.NewUndeltaStore(s.replace, cache.MetaNamespaceKeyFunc), cache.ReflectorOptions{})
	go reflector.RunWithContext(f.Context())
	return s
}

func (f *fixture) sees(s *seen, pods []types.UID, gone ...string) {
	f.Helper()
	testplane.Eventually(f.TB, func() string { return s.problem(pods, gone...) })
}

// registered waits until the API server has a running pod under another UID than the given one.
func (f *fixture) registered(name string, other types.UID) *corev1.Pod {
	f.Helper()
	var p *corev1.Pod
	testplane.Eventually(f.TB, func() string {
		var err error
		p, err = f.admin.CoreV1().Pods(f.namespace).Get(f.Context(), name, metav1.GetOptions{})
		switch {
		case err != nil:
			return err.Error()
		case p.UID == other:
			return "the API server still has the old pod"
		case p.Status.Phase != corev1.PodRunning || len(p.Status.ContainerStatuses) != 1 || !p.Status.ContainerStatuses[0].Ready:
			return fmt.Sprintf("status of the registered pod: %+v", p.Status)
		}
		return ""
	})
	return p
}

func TestErasedPodsAreHeldAndRegistered(t *testing.T) {
	for name, tc := range map[string]struct {
		contentType string
		streams     bool
	}{
		"JSON, lists": {"application/json", false}, "JSON, streams": {"application/json", true},
		"Protobuf, lists": {"application/vnd.kubernetes.protobuf", false}, "Protobuf, streams": {"application/vnd.kubernetes.protobuf", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tc.contentType)
			web, other := f.run("web-0", "web"), f.run("other", "other")
			s := f.watch(tc.streams)
			f.sees(s, []types.UID{web.UID, other.UID})

			for _, pod := range []string{"web-0", "other"} {
				testplane.Erase(t, "", "pods", f.namespace, pod)
			}
			registered := f.registered("web-0", web.UID)
			f.sees(s, []types.UID{web.UID}, "other")
			if registered.Annotations[nodeguard.AnnotationRegistered] != string(web.UID) || registered.Spec.NodeName != f.node {
				t.Errorf("registered pod has annotations %v on node %q", registered.Annotations, registered.Spec.NodeName)
			}
			if got := registered.Annotations[corev1.PodDeletionCost]; got != "2147483647" {
				t.Errorf("the deletion cost of the registered pod is %q, want the highest", got)
			}
			f.checkTranslation(web, registered)

			// Erased a second time, by the UID of its registration.
			testplane.Erase(t, "", "pods", f.namespace, "web-0")
			again := f.registered("web-0", registered.UID)
			f.sees(s, []types.UID{web.UID}, "other")

			// A client deletes it: the kubelet stops it, and deletes it for good.
			f.must(f.admin.CoreV1().Pods(f.namespace).Delete(t.Context(), "web-0", metav1.DeleteOptions{}))
			testplane.Eventually(t, func() string {
				s.mu.Lock()
				defer s.mu.Unlock()
				if p := s.pods[web.UID]; p == nil || p.DeletionTimestamp == nil {
					return "the kubelet does not see the deletion"
				}
				return ""
			})
			now := int64(0)
			f.must(f.kubelet.CoreV1().Pods(f.namespace).Delete(t.Context(), "web-0", metav1.DeleteOptions{
				GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &web.UID},
			}))
			f.sees(s, nil, "other")
			if _, err := f.admin.CoreV1().Pods(f.namespace).Get(t.Context(), "web-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("the registered pod %s still exists: %v", again.UID, err)
			}
		})
	}
}

// checkTranslation sends the requests of a kubelet that carry the UID of a pod, for one that has been registered again.
func (f *fixture) checkTranslation(web, registered *corev1.Pod) {
	f.Helper()
	pods := f.kubelet.CoreV1().Pods(f.namespace)
	got, err := pods.Get(f.Context(), "web-0", metav1.GetOptions{})
	f.must(err)
	if got.UID != web.UID {
		f.Errorf("the kubelet gets the pod with UID %s, want %s", got.UID, web.UID)
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"message":"of the kubelet"}}`, web.UID)
	patched, err := pods.Patch(f.Context(), "web-0", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	f.must(err)
	if patched.UID != web.UID || patched.Status.Message != "of the kubelet" {
		f.Errorf("patched pod has UID %s and message %q", patched.UID, patched.Status.Message)
	}
	token, err := f.kubelet.CoreV1().ServiceAccounts(f.namespace).CreateToken(f.Context(), "default", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: web.UID}},
	}, metav1.CreateOptions{})
	f.must(err)
	if token.Spec.BoundObjectRef.UID != web.UID {
		f.Errorf("the token is bound to UID %s, want %s as the kubelet knows it", token.Spec.BoundObjectRef.UID, web.UID)
	}
	review, err := f.admin.AuthenticationV1().TokenReviews().Create(f.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token.Status.Token},
	}, metav1.CreateOptions{})
	f.must(err)
	if !review.Status.Authenticated || review.Status.User.Extra["authentication.kubernetes.io/pod-uid"][0] != string(registered.UID) {
		f.Errorf("review of the token: %+v, want pod UID %s", review.Status, registered.UID)
	}
	_, err = f.kubelet.CoreV1().Events(f.namespace).Create(f.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "pulled"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: f.namespace, Name: "web-0", UID: web.UID},
	}, metav1.CreateOptions{})
	f.must(err)
	event, err := f.admin.CoreV1().Events(f.namespace).Get(f.Context(), "pulled", metav1.GetOptions{})
	f.must(err)
	if event.InvolvedObject.UID != registered.UID {
		f.Errorf("the event is about UID %s, want %s", event.InvolvedObject.UID, registered.UID)
	}
	f.must(f.admin.CoreV1().Events(f.namespace).Delete(f.Context(), "pulled", metav1.DeleteOptions{}))
}

// A removal without a grace period sets the deletionTimestamp and deletes at once. A kubelet that was disconnected for longer than etcd keeps old
// versions sees neither.
func TestAdmittedRemovalThatTheKubeletMissedPasses(t *testing.T) {
	f := newFixture(t, "application/vnd.kubernetes.protobuf")
	web := f.run("web-0", "web")
	s := f.watch(true)
	f.sees(s, []types.UID{web.UID})
	_, err := f.admin.CoreV1().Events(f.namespace).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: podhold.AdmittedEvent(web.UID)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: f.namespace, Name: "web-0", UID: web.UID},
	}, metav1.CreateOptions{})
	f.must(err)
	testplane.Erase(t, "", "pods", f.namespace, "web-0")
	f.sees(s, nil, "web-0")
}

// An API server deletes Events after an hour by default. A guard that was cut off for longer cannot tell the removal from a loss: it keeps the pod, as
// docs/concepts/node-guard.md says.
func TestAdmittedRemovalIsForgottenWithItsRecord(t *testing.T) {
	f := newFixture(t, "application/vnd.kubernetes.protobuf")
	web := f.run("web-0", "web")
	s := f.watch(true)
	f.sees(s, []types.UID{web.UID})
	f.stop()
	record, err := f.admin.CoreV1().Events(f.namespace).Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: podhold.AdmittedEvent(web.UID)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: f.namespace, Name: "web-0", UID: web.UID},
	}, metav1.CreateOptions{})
	f.must(err)
	f.must(f.admin.CoreV1().Pods(f.namespace).Delete(t.Context(), "web-0", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	f.must(f.admin.CoreV1().Events(f.namespace).Delete(t.Context(), record.Name, metav1.DeleteOptions{}))
	f.start()
	f.registered("web-0", web.UID)
	f.sees(s, []types.UID{web.UID})
}

func TestDeletionWithoutGracePeriodPasses(t *testing.T) {
	f := newFixture(t, "application/vnd.kubernetes.protobuf")
	web := f.run("web-0", "web")
	s := f.watch(true)
	f.sees(s, []types.UID{web.UID})
	now := int64(0)
	f.must(f.admin.CoreV1().Pods(f.namespace).Delete(t.Context(), "web-0", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	f.sees(s, nil)
}

func TestRestartedGuardKeepsWhatItHolds(t *testing.T) {
	f := newFixture(t, "application/vnd.kubernetes.protobuf")
	web := f.run("web-0", "web")
	s := f.watch(true)
	f.sees(s, []types.UID{web.UID})
	f.stop()
	testplane.Erase(t, "", "pods", f.namespace, "web-0")
	f.start()
	registered := f.registered("web-0", web.UID)
	f.sees(s, []types.UID{web.UID})
	f.stop()
	f.start()
	f.checkTranslation(web, registered)
	f.sees(s, []types.UID{web.UID})
}

// An API server that lost a node's pods can have lost its Node, too, which the kubelet then creates again.
func TestPodsAreRegisteredOnARecreatedNode(t *testing.T) {
	f := newFixture(t, "application/vnd.kubernetes.protobuf")
	web := f.run("web-0", "web")
	s := f.watch(true)
	f.sees(s, []types.UID{web.UID})
	f.stop()
	testplane.Erase(t, "", "pods", f.namespace, "web-0")
	f.must(f.admin.CoreV1().Nodes().Delete(t.Context(), f.node, metav1.DeleteOptions{}))
	_, err := f.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node}}, metav1.CreateOptions{})
	f.must(err)
	f.start()
	f.registered("web-0", web.UID)
	f.sees(s, []types.UID{web.UID})
}

func TestAnotherClusterIsRefused(t *testing.T) {
	f := newFixture(t, "application/vnd.kubernetes.protobuf")
	web := f.run("web-0", "web")
	s := f.watch(true)
	f.sees(s, []types.UID{web.UID})
	f.stop()
	identity := filepath.Join(f.options.Dir, "pods", "cluster.json")
	f.must(os.WriteFile(identity, []byte(`{"system":"00000000-0000-4000-8000-000000000000"}`), 0o600))
	testplane.Erase(t, "", "pods", f.namespace, "web-0")
	f.start()
	if _, err := f.kubelet.CoreV1().Pods(f.namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("a request to another cluster: error %v, want that it is refused", err)
	}
	f.wantMetrics("breakwater_node_other_cluster 1", "breakwater_node_held_pods 0")
	f.sees(s, []types.UID{web.UID})
}

func TestOnlyTheKubeletMayUseTheGuard(t *testing.T) {
	f := newFixture(t, "application/json")
	cert, key, _ := testplane.Certificate(t)
	certPEM, err := os.ReadFile(cert)
	f.must(err)
	keyPEM, err := os.ReadFile(key)
	f.must(err)
	if _, err := keyutil.ParsePrivateKeyPEM(keyPEM); err != nil {
		t.Fatal(err)
	}
	trusted, err := nodeguard.EnsureCertificate(f.options.Dir, time.Now())
	f.must(err)
	for who, identity := range map[string]rest.TLSClientConfig{"a client without certificate": {CAData: trusted}, "a client with another certificate": {CAData: trusted, CertData: certPEM, KeyData: keyPEM}} {
		other := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://" + f.options.Listen, TLSClientConfig: identity})
		if _, err := other.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil || apierrors.IsForbidden(err) {
			t.Errorf("%s: error %v, want that the handshake fails", who, err)
		}
	}
}

// status returns what the guard reports on its Node.
func (f *fixture) status() (podhold.Status, *corev1.Node) {
	f.Helper()
	node, err := f.admin.CoreV1().Nodes().Get(f.Context(), f.node, metav1.GetOptions{})
	f.must(err)
	var s podhold.Status
	if text := node.Annotations[podhold.AnnotationStatus]; text != "" {
		f.must(json.Unmarshal([]byte(text), &s))
	}
	return s, node
}

// wantMetrics waits until the guard serves these metrics, with values.
func (f *fixture) wantMetrics(want ...string) {
	f.Helper()
	testplane.Eventually(f.TB, func() string {
		r, err := http.NewRequestWithContext(f.Context(), http.MethodGet, "http://"+f.options.MetricsListen+"/metrics", http.NoBody)
		f.must(err)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		f.must(err)
		for _, line := range want {
			if !strings.Contains(string(text), "\n"+line+"\n") {
				return fmt.Sprintf("metrics\n%s\nwant %s", text, line)
			}
		}
		return ""
	})
}

// withEphemeralVolume makes a pod one that cannot be registered again.
func withEphemeralVolume(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}},
	}}}}
}

// release releases pods that the guard holds, as a user does.
func (f *fixture) release(uids ...types.UID) {
	f.Helper()
	_, node := f.status()
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	released := ""
	for _, uid := range uids {
		released = podhold.WithRelease(released, uid)
	}
	node.Annotations[podhold.AnnotationRelease] = released
	_, err := f.admin.CoreV1().Nodes().Update(f.Context(), node, metav1.UpdateOptions{})
	f.must(err)
}

// A pod with an ephemeral volume cannot be registered again. The guard says so on its Node, and ends the pod when a user releases it.
func TestHeldPodIsReportedAndReleased(t *testing.T) {
	f := newFixture(t, "application/vnd.kubernetes.protobuf")
	web := f.runWith("web-0", "web", withEphemeralVolume)
	s := f.watch(true)
	f.sees(s, []types.UID{web.UID})
	testplane.Erase(t, "", "pods", f.namespace, "web-0")
	testplane.Eventually(t, func() string {
		status, _ := f.status()
		if len(status.Held) != 1 || status.HeldCount != 1 || status.Held[0].UID != web.UID || status.Held[0].Namespace != f.namespace ||
			!strings.Contains(status.Held[0].Reason, "volume scratch") || time.Since(status.Held[0].Since.Time) > time.Minute {
			return fmt.Sprintf("status %+v, want pod web-0 with UID %s, and its volume as the reason", status, web.UID)
		}
		return ""
	})
	f.sees(s, []types.UID{web.UID})
	f.wantMetrics("breakwater_node_held_pods 1", "breakwater_node_held_total 1", "breakwater_node_registered_total 0", "breakwater_node_other_cluster 0")

	f.release("00000000-0000-4000-8000-000000000000", web.UID)
	f.sees(s, nil, "web-0")
	testplane.Eventually(t, func() string {
		status, node := f.status()
		if left, found := node.Annotations[podhold.AnnotationRelease]; found || status.HeldCount != 0 {
			return fmt.Sprintf("annotation of releases %q, status %+v, want neither", left, status)
		}
		return ""
	})
	f.wantMetrics("breakwater_node_held_pods 0", `breakwater_node_ended_total{reason="Released"} 1`)
}

// The guard hides a pod that has the name of a held one from the kubelet (rule N6). The kubelet must run it as soon as the held one ends.
func TestHiddenPodIsSeenOnceHeldPodEnds(t *testing.T) {
	for _, streams := range []bool{false, true} {
		t.Run(fmt.Sprintf("streams %v", streams), func(t *testing.T) {
			f := newFixture(t, "application/vnd.kubernetes.protobuf")
			web := f.runWith("web-0", "web", withEphemeralVolume)
			s := f.watch(streams)
			f.sees(s, []types.UID{web.UID})
			testplane.Erase(t, "", "pods", f.namespace, "web-0")
			f.wantMetrics("breakwater_node_held_pods 1")
			replacement := f.runWith("web-0", "web", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:2" }) // not a registration (rule N7)
			other := f.run("other", "web")
			f.sees(s, []types.UID{web.UID, other.UID})
			f.release(web.UID)
			f.sees(s, []types.UID{replacement.UID, other.UID}, "web-0")
		})
	}
}

func TestRegisteredPodsAreCounted(t *testing.T) {
	f := newFixture(t, "application/vnd.kubernetes.protobuf")
	web := f.run("web-0", "web")
	s := f.watch(true)
	f.sees(s, []types.UID{web.UID})
	testplane.Erase(t, "", "pods", f.namespace, "web-0")
	f.registered("web-0", web.UID)
	testplane.Eventually(t, func() string {
		if status, _ := f.status(); status.Registered != 1 || status.HeldCount != 0 {
			return fmt.Sprintf("status %+v, want one registered pod", status)
		}
		return ""
	})
	f.wantMetrics("breakwater_node_registered_total 1", "breakwater_node_held_pods 0")
	account := nodeguard.NewAccount(f.kubeconfig(), f.options.TokenFile)
	f.must(account.RemoveStatus(t.Context(), f.node))
	if _, node := f.status(); node.Annotations[podhold.AnnotationStatus] != "" {
		t.Errorf("the Node has annotations %v after the status was removed", node.Annotations)
	}
}

func (f *fixture) kubeconfig() *nodeguard.Kubeconfig {
	f.Helper()
	k, err := nodeguard.ReadKubeconfig(f.options.Kubeconfig)
	f.must(err)
	return k
}

func TestTokensAreBoundToTheNode(t *testing.T) {
	f := newFixture(t, "application/json")
	own := nodeguard.NewAccount(f.kubeconfig(), f.options.TokenFile)
	token, expires, err := own.RequestToken(t.Context(), f.namespace, "guard-node", f.node)
	f.must(err)
	if left := time.Until(expires); left < 6*24*time.Hour || left > 8*24*time.Hour {
		t.Errorf("the token expires in %s, want 7 days", left)
	}
	review := func() *authenticationv1.TokenReview {
		r, err := f.admin.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(token)}}, metav1.CreateOptions{})
		f.must(err)
		return r
	}
	if r := review(); !r.Status.Authenticated || !slices.Equal(r.Status.User.Extra["authentication.kubernetes.io/node-name"], []string{f.node}) {
		t.Errorf("review of the token: %+v, want node %s", r.Status, f.node)
	}
	if _, _, err := own.RequestToken(t.Context(), f.namespace, "default", f.node); err == nil {
		t.Error("the guard may request tokens of another account")
	}
}
