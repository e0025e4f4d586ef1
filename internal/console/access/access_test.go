package access_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
)

// desk is an API server that knows some tokens, behind a Gate.
type desk struct {
	*testing.T
	gate    *access.Gate
	tokens  map[string]string
	rights  map[string]bool
	asked   atomic.Int64
	away    bool
	elapsed time.Duration
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, tokens: map[string]string{"good": "ann"}, rights: map[string]bool{}}
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d.asked.Add(1)
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		name, ok := d.tokens[review.Spec.Token]
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: cmp.Or(name, "somebody")}}
		return true, review, d.fault()
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d.asked.Add(1)
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		what := review.Spec.ResourceAttributes
		review.Status.Allowed = d.rights[review.Spec.User+" "+what.Verb+" "+what.Resource+" "+what.Namespace]
		return true, review, d.fault()
	})
	now := func() time.Time { return time.Unix(1_800_000_000, 0).Add(d.elapsed) }
	d.gate = access.NewGate(access.NewReviews(client, 30*time.Second, now), access.NewSessions(time.Hour, 12*time.Hour, 3, now), now)
	return d
}

func (d *desk) fault() error {
	if d.away {
		return errors.New("away")
	}
	return nil
}

func (d *desk) wait(t time.Duration) { d.elapsed += t }

func (d *desk) signIn() *http.Cookie {
	d.Helper()
	cookie, err := d.gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "good")
	if err != nil {
		d.Fatal(err)
	}
	return cookie
}

func bearer(token string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func with(cookie *http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(cookie)
	return r
}

func (d *desk) want(r *http.Request, want error) {
	d.Helper()
	if _, err := d.gate.Admit(r, true); !errors.Is(err, want) || want == nil && err != nil {
		d.Errorf("got %v, want %v", err, want)
	}
}

func TestATokenIsAskedAboutAndBelievedForAWhile(t *testing.T) {
	d := newDesk(t)
	for range 5 {
		d.want(bearer("good"), nil)
		d.want(bearer("bad"), access.ErrNobody)
	}
	if d.asked.Load() != 2 {
		t.Errorf("the apiserver was asked %d times", d.asked.Load())
	}
	delete(d.tokens, "good")
	d.want(bearer("good"), nil)
	d.wait(30 * time.Second)
	d.want(bearer("good"), access.ErrNobody)
}

func TestWhatIsNoTokenIsOfNobodyAndNotAskedAbout(t *testing.T) {
	d := newDesk(t)
	basic := bearer("good")
	basic.Header.Set("Authorization", "Basic good")
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/", nil), bearer(""), bearer(strings.Repeat("a", 20<<10)), basic,
		with(&http.Cookie{Name: access.Cookie, Value: "good"}), with(&http.Cookie{Name: access.Cookie, Value: ""}),
	} {
		d.want(r, access.ErrNobody)
	}
	if d.asked.Load() != 0 {
		t.Errorf("the apiserver was asked %d times", d.asked.Load())
	}
}

func TestNobodyIsLetInWhileTheApiserverIsAway(t *testing.T) {
	d := newDesk(t)
	cookie := d.signIn()
	d.away = true
	d.want(with(cookie), nil) // the answer is still cached
	d.wait(time.Minute)
	if _, err := d.gate.Admit(with(cookie), true); err == nil || errors.Is(err, access.ErrNobody) {
		t.Errorf("got %v", err)
	}
	d.away = false
	d.want(with(cookie), nil) // the session still exists
}

func TestWrongTokensAreCountedAndRightOnesAreNot(t *testing.T) {
	d := newDesk(t)
	for i := range 30 {
		d.tokens["good"+strings.Repeat("x", i)] = "ann"
		d.want(bearer("good"+strings.Repeat("x", i)), nil)
	}
	for i := range 10 {
		d.want(bearer("bad"+strings.Repeat("x", i)), access.ErrNobody)
	}
	before := d.asked.Load()
	d.want(bearer("another"), access.ErrTooMany)
	d.want(bearer("good"), nil) // a known token is not limited
	elsewhere := bearer("another")
	elsewhere.RemoteAddr = "192.0.2.77:5"
	d.want(elsewhere, access.ErrNobody)
	if d.asked.Load() != before+1 {
		t.Errorf("the apiserver was asked %d times more", d.asked.Load()-before)
	}
	d.wait(6 * time.Second)
	d.want(bearer("and another"), access.ErrNobody)
	d.want(bearer("and one more"), access.ErrTooMany)
}

func TestManyAddressesTogetherAreBoundedToo(t *testing.T) {
	d := newDesk(t)
	for i := range 101 {
		r := bearer("bad" + strings.Repeat("x", i))
		r.RemoteAddr = "192.0.2." + string(rune('0'+i%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i/100)) + ":5"
		want := access.ErrNobody
		if i == 100 {
			want = access.ErrTooMany
		}
		d.want(r, want)
	}
}

func TestAnIPv6ClientIsItsNetwork(t *testing.T) {
	d := newDesk(t)
	from := func(address, token string) *http.Request {
		r := bearer(token)
		r.RemoteAddr = address
		return r
	}
	for i := range 10 {
		d.want(from(fmt.Sprintf("[2001:db8:0:7:%x::%x]:%d", i, i*i, 5+i), fmt.Sprint("bad ", i)), access.ErrNobody)
	}
	for claim, c := range map[string]struct {
		address string
		want    error
	}{
		"another address of the same network": {"[2001:db8:0:7:ffff::1]:9", access.ErrTooMany},
		"the next network":                    {"[2001:db8:0:8::1]:9", access.ErrNobody},
		"an address of IPv4":                  {"192.0.2.1:9", nil},
		"what is no address":                  {"unix", access.ErrNobody},
	} {
		t.Run(claim, func(*testing.T) {
			if c.want == nil { // the same client, with different forms of its address
				for i := range 5 {
					d.want(from("192.0.2.1:9", fmt.Sprint("v4 ", i)), access.ErrNobody)
					d.want(from("[::ffff:192.0.2.1]:9", fmt.Sprint("mapped ", i)), access.ErrNobody)
				}
				d.want(from("[::ffff:192.0.2.1]:10", "v4"), access.ErrTooMany)
				return
			}
			d.want(from(c.address, claim), c.want)
		})
	}
}

func TestWrongTokensOfOthersAreInTheWayOfNoOpenSession(t *testing.T) {
	d := newDesk(t)
	d.tokens["proxied"] = "bob"
	cookie := d.signIn()
	d.want(bearer("proxied"), nil)
	for i := range 120 { // from all addresses, until the limit is reached
		r := bearer(fmt.Sprint("bad ", i))
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:5", 1+i/9)
		_, _ = d.gate.Admit(r, true)
	}
	d.want(bearer("new"), access.ErrTooMany)
	d.wait(31 * time.Second) // the cache expires, so that the API server is asked again
	for i := range 60 {
		r := bearer(fmt.Sprint("worse ", i))
		r.RemoteAddr = fmt.Sprintf("198.51.100.%d:5", 1+i/9)
		_, _ = d.gate.Admit(r, true)
	}
	d.want(bearer("new"), access.ErrTooMany)
	d.want(with(cookie), nil)
	d.want(bearer("proxied"), nil)
	delete(d.tokens, "proxied")
	d.wait(31 * time.Second)
	d.want(bearer("proxied"), access.ErrNobody)
	d.wait(31 * time.Second)
	for i := range 120 {
		r := bearer(fmt.Sprint("bad again ", i))
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:5", 1+i/9)
		_, _ = d.gate.Admit(r, true)
	}
	d.want(bearer("proxied"), access.ErrTooMany) // it counts as a guess, like any other token
}

func TestSlowReviewsOfOthersDelayNoOpenSession(t *testing.T) {
	held, reviewing := make(chan struct{}), make(chan struct{}, 100)
	apiserver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := authenticationv1.TokenReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if review.Spec.Token != "good" {
			reviewing <- struct{}{}
			<-held
		}
		review.Status.Authenticated, review.Status.User.Username = review.Spec.Token == "good", "ann"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer apiserver.Close()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: apiserver.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	gate := access.NewGate(access.NewReviews(client, 0, time.Now), access.NewSessions(time.Hour, time.Hour, 3, time.Now), time.Now) // disable caching
	cookie, err := gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "good")
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	for i := range 40 {
		others.Go(func() {
			r := bearer(fmt.Sprint("slow ", i))
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:5", 1+i)
			_, _ = gate.Admit(r, true)
		})
	}
	for range 4 { // firstAtOnce
		<-reviewing
	}
	if _, err := gate.Admit(with(cookie), true); err != nil {
		t.Errorf("Admit() of an open session while sign-ins are slow: %v", err)
	}
	close(held)
	others.Wait()
}

func TestSignInsOfAUserEndNoSessionOfOthers(t *testing.T) {
	d := newDesk(t) // at most three sessions
	d.tokens["other"] = "eve"
	first := d.signIn()
	d.wait(time.Minute)
	var last *http.Cookie
	for range 9 {
		d.wait(time.Second)
		cookie, err := d.gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "other")
		if err != nil {
			t.Fatal(err)
		}
		last = cookie
	}
	d.want(with(first), nil)
	d.want(with(last), nil)
	d.tokens["third"], d.tokens["fourth"] = "bob", "joe"
	if _, err := d.gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "third"); err != nil {
		t.Errorf("SignIn() of a third user: %v, want a place of the user who has two", err)
	}
	if _, err := d.gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "fourth"); !errors.Is(err, access.ErrFull) {
		t.Errorf("SignIn() of a fourth user: %v, want %v", err, access.ErrFull)
	}
	d.want(with(first), nil)
	d.want(with(last), nil)
}

func TestASessionEnds(t *testing.T) {
	for claim, c := range map[string]struct {
		end  func(d *desk, cookie *http.Cookie)
		want error
	}{
		"not while somebody uses it": {func(d *desk, cookie *http.Cookie) {
			for range 11 {
				d.wait(59 * time.Minute)
				d.want(with(cookie), nil)
			}
		}, nil},
		"when it is old, however much it is used": {func(d *desk, cookie *http.Cookie) {
			for range 13 {
				d.wait(59 * time.Minute)
				_, _ = d.gate.Admit(with(cookie), true)
			}
		}, access.ErrNobody},
		"when only its page asks": {func(d *desk, cookie *http.Cookie) {
			for range 4 {
				d.wait(15 * time.Minute)
				_, _ = d.gate.Admit(with(cookie), false)
			}
		}, access.ErrNobody},
		"when its user signs out": {func(d *desk, cookie *http.Cookie) { d.gate.SignOut(with(cookie)) }, access.ErrNobody},
		"when its browser signs in again": {func(d *desk, cookie *http.Cookie) {
			if _, err := d.gate.SignIn(with(cookie), "good"); err != nil {
				d.Fatal(err)
			}
		}, access.ErrNobody},
		"when its token is worth nothing any more": {func(d *desk, _ *http.Cookie) { delete(d.tokens, "good"); d.wait(time.Minute) }, access.ErrNobody},
		"when there are too many, and it was idle for longest": {func(d *desk, _ *http.Cookie) {
			for range 3 {
				d.wait(time.Second)
				d.signIn()
			}
		}, access.ErrNobody},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newDesk(t)
			cookie := d.signIn()
			visitor, err := d.gate.Admit(with(cookie), true)
			if err != nil {
				t.Fatal(err)
			}
			c.end(d, cookie)
			d.want(with(cookie), c.want)
			if c.want == nil {
				return
			}
			if err := visitor.Still(t.Context()); !errors.Is(err, access.ErrNobody) {
				t.Errorf("who came by it is still let in: %v", err)
			}
			select {
			case <-visitor.Session.Ended():
			default:
				t.Error("nobody is told that it has ended")
			}
		})
	}
}

func TestASessionIsOfOneBrowserAndOneHostAlone(t *testing.T) {
	d := newDesk(t)
	first, second := d.signIn(), d.signIn()
	if first.Value == second.Value || len(first.Value) < 40 || strings.Contains(first.Value, "good") {
		t.Errorf("ids %q and %q", first.Value, second.Value)
	}
	header := first.String()
	for _, word := range []string{"__Host-", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(header, word) {
			t.Errorf("no %s in %s", word, header)
		}
	}
	if strings.Contains(header, "Domain") {
		t.Error("it is for other hosts as well")
	}
}

func TestASightIsWhatTheApiserverAllows(t *testing.T) {
	d := newDesk(t)
	d.tokens["boss"] = "eve"
	d.rights["ann list podprotectors shop"] = true
	d.rights["eve list podprotectors "] = true
	sight := func(token string, namespaces ...string) access.Sight {
		visitor, err := d.gate.Admit(bearer(token), true)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := visitor.Sight(t.Context(), "breakwater.dev", "podprotectors", namespaces)
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	if s := sight("good", "shop", "bank"); !s.Sees("shop") || s.Sees("bank") || s.Sees("") || s.All {
		t.Errorf("%+v", s)
	}
	if s := sight("boss", "shop", "bank"); !s.Sees("shop") || !s.Sees("bank") || !s.All {
		t.Errorf("%+v", s)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = "n" + strings.Repeat("x", i)
	}
	before := d.asked.Load()
	if s := sight("good", many...); s.Unasked != 700 || d.asked.Load()-before != 300 {
		t.Errorf("%d are left out, %d asked about", s.Unasked, d.asked.Load()-before)
	}
	d.wait(time.Minute)
	visitor, err := d.gate.Admit(bearer("good"), true)
	if err != nil {
		t.Fatal(err)
	}
	d.away = true
	if _, err := visitor.Sight(context.Background(), "breakwater.dev", "podprotectors", []string{"shop"}); err == nil {
		t.Error("nobody answers, and something is seen")
	}
	d.away = false
	sight("good", "shop")
	d.away = true
	if _, err := visitor.Sight(context.Background(), "breakwater.dev", "podprotectors", []string{"shop", "bank"}); err == nil {
		t.Error("nobody answers about bank, and it is taken for hidden")
	}
}
