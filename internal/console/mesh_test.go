package console

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// wire forwards connections to an API server until it is cut.
type wire struct {
	net.Listener
	to string

	mu    sync.Mutex
	isCut bool
	open  []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: listener, to: to}
	t.Cleanup(func() { listener.Close(); w.setCut(true) })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go w.forward(from)
		}
	}()
	return w
}

func (w *wire) forward(from net.Conn) {
	to, err := net.Dial("tcp", w.to)
	if err != nil {
		from.Close()
		return
	}
	w.mu.Lock()
	isCut := w.isCut
	w.open = append(w.open, from, to)
	w.mu.Unlock()
	if isCut {
		from.Close()
	}
	go func() { _, _ = io.Copy(to, from); to.Close() }()
	_, _ = io.Copy(from, to)
	from.Close()
}

func (w *wire) setCut(isCut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = isCut
	for _, c := range w.open {
		if isCut {
			c.Close()
		}
	}
}

// west is a second core cluster. Its console account has exactly the permissions of a console.
type west struct {
	*testConsole
	admin  *rest.Config
	config *rest.Config
	wire   *wire
	viewer string
}

// newWest creates a namespace with the given name in the second control plane, and a viewer of all objects.
func newWest(t *testing.T, namespace string) *west {
	t.Helper()
	admin := testplane.Second(t)
	c, err := client.New(admin, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w := &west{testConsole: &testConsole{T: t, Client: c, namespace: namespace}, admin: admin}
	w.must(c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	account := func(name string, rules []rbacv1.PolicyRule) *rest.Config {
		w.must(c.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name}, Rules: rules}))
		return testplane.AsServiceAccount(t, admin, namespace, name, namespace+"-"+name)
	}
	w.config, w.viewer = account("console", roles.Rules(t, "console")), account("all", allRules()).BearerToken
	to, err := url.Parse(w.config.Host)
	w.must(err)
	w.wire = newWire(t, to.Host)
	w.config.Host = "https://" + w.wire.Addr().String()
	return w
}

func TestMeshShowsLastKnownDataOfUnreachableCore(t *testing.T) {
	namespace := "mesh"
	w := newWest(t, namespace)
	w.wire.setCut(true)
	s := newTestConsole(t, func(o *Options) {
		o.Core, o.Others, o.ProbeInterval = "east", map[string]*rest.Config{"west": w.config}, 50*time.Millisecond
	})
	s.createProtector(s.namespace, "web", 12, 10)
	bank := w.createProtector(namespace, "bank", 7, 5)
	old := w.createProtector(namespace, "old", 3, 3)
	w.must(w.Create(t.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	east := s.token("all", []string{""}, allRules()...)

	// The console starts without west.
	s.awaitPage("/", east, "Nothing is known of core west now")
	s.awaitPage("/protectors/"+s.namespace+"/web", east, ">12<")

	w.wire.setCut(false)
	_, session, _ := s.signIn(east+"\n"+w.viewer, "/")
	body := s.awaitSession("/", session, `href="/cores/west/protectors/`+namespace+`/bank"`)
	for _, want := range []string{`href="/protectors/` + s.namespace + `/web"`, "<b>east</b>, <b>west</b>", "west/" + namespace + "/", "east/" + s.namespace + "/"} {
		if !strings.Contains(body, want) {
			t.Errorf("page does not contain %q:\n%s", want, body)
		}
	}
	path := "/cores/west/protectors/" + namespace + "/bank"
	s.awaitSession(path, session, "Run these commands with a kubeconfig of core <b>west</b>")
	s.awaitSession("/cells", session, `id="cell-west.`+namespace+`"`)

	// A user of one core sees nothing of the other one.
	body = s.awaitPage("/", east, "Core <b>west</b> did not accept your token")
	if strings.Contains(body, "west/"+namespace) {
		t.Errorf("a user of east sees a protector of west:\n%s", body)
	}
	for token, c := range map[string]struct {
		path string
		want int
	}{east: {path, http.StatusForbidden}, w.viewer: {"/protectors/" + s.namespace + "/web", http.StatusForbidden}} {
		if code, body, _ := s.get(c.path, token); code != c.want {
			t.Errorf("%s: code %d, want %d: %s", c.path, code, c.want, body)
		}
	}
	if code, _, _ := s.get("/cores/north/protectors/"+namespace+"/bank", east); code != http.StatusNotFound {
		t.Errorf("unknown core: code %d", code)
	}

	w.wire.setCut(true)
	body = s.awaitSession("/", session, "Nothing is known of core west now")
	for _, want := range []string{"bank", "core unreachable", ">12<"} {
		if !strings.Contains(body, want) {
			t.Errorf("page does not contain %q while west is unreachable:\n%s", want, body)
		}
	}
	s.awaitSession(path, session, "core unreachable")
	s.awaitSession("/cells", session, "core unreachable")
	w.must(w.Delete(t.Context(), old))
	w.must(w.Get(t.Context(), client.ObjectKeyFromObject(bank), bank))
	w.setAvailable(bank, 6)
	cut := time.Now()
	testplane.Eventually(t, func() string { // the timeline has a resolution of one second
		if time.Now().Unix() == cut.Unix() {
			return "the second of the outage has not passed"
		}
		return ""
	})

	w.wire.setCut(false)
	testplane.Eventually(t, func() string {
		_, body, _ := s.get("/", "", cookie(session))
		if strings.Contains(body, "unreachable") || strings.Contains(body, ">old<") || !strings.Contains(body, "<td class=\"n\">6</td>") {
			return "after the outage the page shows:\n" + body
		}
		return ""
	})
	wantGap(s, path, session)
}

// wantGap checks that the timeline says that nothing is known of the time of the outage.
func wantGap(s *testConsole, path, session string) {
	s.Helper()
	_, text, _ := s.get("/api"+path, "", cookie(session))
	got := protectorBody{}
	s.must(json.Unmarshal([]byte(text), &got))
	var states []int32
	for _, p := range got.Points {
		available := p.Last.Available
		if !p.Last.Known {
			available = -1
		}
		states = append(states, available)
	}
	// The points have a resolution of a second: one with 7 pods precedes only if the outage did not begin in the same second.
	if n := len(states); n < 2 || states[n-1] != 6 || states[n-2] != -1 {
		s.Errorf("timeline %v, want a gap (-1), and then 6", states)
	}
}
