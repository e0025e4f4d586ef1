package access_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
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

// fakeAPIServer is an API server that knows some tokens, behind a Gate.
type fakeAPIServer struct {
	*testing.T
	gate        *access.Gate
	tokens      map[string]string
	permissions map[string]bool
	reviewCount atomic.Int64
	unavailable bool
	// isDown is what the console knows.
	isDown  bool
	reviews *access.Reviews
	elapsed time.Duration
}

func newFakeAPIServer(t *testing.T) *fakeAPIServer {
	d := &fakeAPIServer{T: t, tokens: map[string]string{"good": "ann"}, permissions: map[string]bool{}}
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d.reviewCount.Add(1)
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		name, ok := d.tokens[review.Spec.Token]
		review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, User: authenticationv1.UserInfo{Username: cmp.Or(name, "user")}}
		return true, review, d.failure()
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		d.reviewCount.Add(1)
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
		what := review.Spec.ResourceAttributes
		review.Status.Allowed = d.permissions[review.Spec.User+" "+what.Verb+" "+what.Resource+" "+what.Namespace]
		return true, review, d.failure()
	})
	now := func() time.Time { return time.Unix(1_800_000_000, 0).Add(d.elapsed) }
	d.reviews = access.NewReviews(client, 30*time.Second, now)
	d.reviews.Unreachable = func() bool { return d.isDown }
	d.gate = access.NewGate([]access.Core{{Name: "core", Reviews: d.reviews}}, access.NewSessions(time.Hour, 12*time.Hour, 3, now), now)
	return d
}

func (d *fakeAPIServer) failure() error {
	if d.unavailable {
		return errors.New("away")
	}
	return nil
}

func (d *fakeAPIServer) advance(t time.Duration) { d.elapsed += t }

func (d *fakeAPIServer) signIn() *http.Cookie {
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

func (d *fakeAPIServer) wantAdmit(r *http.Request, wantAdmit error) {
	d.Helper()
	if _, err := d.gate.Admit(r, true); !errors.Is(err, wantAdmit) || wantAdmit == nil && err != nil {
		d.Errorf("Admit() = %v, want %v", err, wantAdmit)
	}
}

func TestTokenReviewsAreCached(t *testing.T) {
	d := newFakeAPIServer(t)
	for range 5 {
		d.wantAdmit(bearer("good"), nil)
		d.wantAdmit(bearer("bad"), access.ErrUnauthenticated)
	}
	if d.reviewCount.Load() != 2 {
		t.Errorf("the API server received %d reviews", d.reviewCount.Load())
	}
	delete(d.tokens, "good")
	d.wantAdmit(bearer("good"), nil)
	d.advance(30 * time.Second)
	d.wantAdmit(bearer("good"), access.ErrUnauthenticated)
}

func TestMalformedTokensAreNotReviewed(t *testing.T) {
	d := newFakeAPIServer(t)
	basic := bearer("good")
	basic.Header.Set("Authorization", "Basic good")
	for _, r := range []*http.Request{
		httptest.NewRequest(http.MethodGet, "/", nil), bearer(""), bearer(strings.Repeat("a", 20<<10)), bearer("good bad"), basic,
		with(&http.Cookie{Name: access.Cookie, Value: "good"}), with(&http.Cookie{Name: access.Cookie, Value: ""}),
	} {
		d.wantAdmit(r, access.ErrUnauthenticated)
	}
	if d.reviewCount.Load() != 0 {
		t.Errorf("the API server received %d reviews", d.reviewCount.Load())
	}
}

func TestAdmitFailsWhileAPIServerIsUnreachable(t *testing.T) {
	d := newFakeAPIServer(t)
	cookie := d.signIn()
	d.unavailable = true
	d.wantAdmit(with(cookie), nil) // the answer is still cached
	d.advance(time.Minute)
	if _, err := d.gate.Admit(with(cookie), true); err == nil || errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("got %v", err)
	}
	d.unavailable = false
	d.wantAdmit(with(cookie), nil) // the session still exists
}

func TestLastAnswersHoldWhileCoreIsUnreachable(t *testing.T) {
	d := newFakeAPIServer(t)
	d.permissions["ann list cells "] = true
	cookie, cells := d.signIn(), access.Permission{Resource: "cells"}
	isAllowed := func(right access.Permission) (bool, error) {
		visitor, err := d.gate.Admit(with(cookie), true)
		if err != nil {
			return false, err
		}
		return visitor.IsAllowed(t.Context(), "core", right)
	}
	if ok, err := isAllowed(cells); !ok {
		t.Fatalf("IsAllowed() = %t, %v before the outage", ok, err)
	}
	before := d.reviewCount.Load()
	d.isDown, d.unavailable = true, true
	d.advance(59 * time.Minute)
	if ok, err := isAllowed(cells); !ok || d.reviewCount.Load() != before {
		t.Errorf("IsAllowed() = %t, %v with %d reviews during the outage, want the last answer", ok, err, d.reviewCount.Load()-before)
	}
	if _, err := isAllowed(access.Permission{Resource: "secrets"}); !errors.Is(err, access.ErrUnreachable) {
		t.Errorf("IsAllowed() of a new question during the outage: %v, want %v", err, access.ErrUnreachable)
	}
	d.wantAdmit(bearer("bad"), access.ErrUnreachable)
	d.advance(time.Minute + time.Second)
	if _, err := isAllowed(cells); !errors.Is(err, access.ErrUnreachable) {
		t.Errorf("IsAllowed() an hour into the outage: %v, want %v", err, access.ErrUnreachable)
	}
}

// Each core decides about its own objects, and sees no token that only another one can have issued.
func TestCoresKnowTheirOwnUsers(t *testing.T) {
	east, west := newFakeAPIServer(t), newFakeAPIServer(t)
	claims := func(subject string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+subject+`"}`)) + ".c2ln"
	}
	account, other, shared := claims("system:serviceaccount:shop:viewer"), claims("system:serviceaccount:shop:other"), claims("joe")
	east.tokens, west.tokens = map[string]string{account: "eve", shared: "joe"}, map[string]string{other: "max", shared: "sso:joe", account: "thief"}
	gate := access.NewGate([]access.Core{{Name: "east", Reviews: east.reviews}, {Name: "west", Reviews: west.reviews}},
		access.NewSessions(time.Hour, time.Hour, 3, time.Now), time.Now)
	for claim, c := range map[string]struct {
		token, user string
		knows       []string
		err         error
	}{
		"a ServiceAccount of the first core": {account, "eve", []string{"east"}, nil},
		"a ServiceAccount of the other core": {other, "max", []string{"west"}, nil},
		"a user of both":                     {shared, "joe", []string{"east", "west"}, nil},
		"a token for each":                   {account + " " + other, "eve", []string{"east", "west"}, nil},
		"one of two tokens is wrong":         {"wrong " + other, "max", []string{"west"}, nil},
		"more tokens than cores":             {account + " " + other + " " + shared, "", nil, access.ErrUnauthenticated},
	} {
		visitor, err := gate.Admit(bearer(c.token), true)
		if !errors.Is(err, c.err) || c.err == nil && err != nil {
			t.Errorf("%s: error %v, want %v", claim, err, c.err)
		}
		if err != nil {
			continue
		}
		if visitor.User.Name != c.user {
			t.Errorf("%s: user %q, want %q", claim, visitor.User.Name, c.user)
		}
		for core, want := range map[string]bool{"east": slices.Contains(c.knows, "east"), "west": slices.Contains(c.knows, "west"), "north": false} {
			if visitor.Knows(core) != want {
				t.Errorf("%s: Knows(%s) = %t, want %t", claim, core, !want, want)
			}
		}
	}
	west.permissions["sso:joe list cells "], east.permissions["joe list cells "] = true, false
	visitor, err := gate.Admit(bearer(shared), true)
	if err != nil {
		t.Fatal(err)
	}
	for core, want := range map[string]bool{"east": false, "west": true, "north": false} {
		if ok, err := visitor.IsAllowed(t.Context(), core, access.Permission{Resource: "cells"}); ok != want || err != nil {
			t.Errorf("IsAllowed() in %s = %t, %v, want %t", core, ok, err, want)
		}
	}
	east.unavailable = true
	if visitor, err := gate.Admit(bearer(claims("new")), true); err == nil || errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("Admit() of a token that west rejects while east fails: %v, %v, want the failure", visitor, err)
	}
}

func TestOnlyWrongTokensCountAsAttempts(t *testing.T) {
	d := newFakeAPIServer(t)
	for i := range 30 {
		d.tokens["good"+strings.Repeat("x", i)] = "ann"
		d.wantAdmit(bearer("good"+strings.Repeat("x", i)), nil)
	}
	for i := range 10 {
		d.wantAdmit(bearer("bad"+strings.Repeat("x", i)), access.ErrUnauthenticated)
	}
	before := d.reviewCount.Load()
	d.wantAdmit(bearer("another"), access.ErrTooManyAttempts)
	d.wantAdmit(bearer("good"), nil) // a known token is not limited
	elsewhere := bearer("another")
	elsewhere.RemoteAddr = "192.0.2.77:5"
	d.wantAdmit(elsewhere, access.ErrUnauthenticated)
	if d.reviewCount.Load() != before+1 {
		t.Errorf("the API server received %d further reviews", d.reviewCount.Load()-before)
	}
	d.advance(6 * time.Second)
	d.wantAdmit(bearer("and-another"), access.ErrUnauthenticated)
	d.wantAdmit(bearer("and-one-more"), access.ErrTooManyAttempts)
}

func TestAttemptsOfAllClientsAreLimited(t *testing.T) {
	d := newFakeAPIServer(t)
	for i := range 101 {
		r := bearer("bad" + strings.Repeat("x", i))
		r.RemoteAddr = "192.0.2." + string(rune('0'+i%10)) + string(rune('0'+i/10%10)) + string(rune('0'+i/100)) + ":5"
		want := access.ErrUnauthenticated
		if i == 100 {
			want = access.ErrTooManyAttempts
		}
		d.wantAdmit(r, want)
	}
}

func TestIPv6ClientIsItsNetwork(t *testing.T) {
	d := newFakeAPIServer(t)
	from := func(address, token string) *http.Request {
		r := bearer(token)
		r.RemoteAddr = address
		return r
	}
	for i := range 10 {
		d.wantAdmit(from(fmt.Sprintf("[2001:db8:0:7:%x::%x]:%d", i, i*i, 5+i), fmt.Sprint("bad-", i)), access.ErrUnauthenticated)
	}
	for claim, c := range map[string]struct {
		address string
		want    error
	}{
		"another address of the same network": {"[2001:db8:0:7:ffff::1]:9", access.ErrTooManyAttempts},
		"the next network":                    {"[2001:db8:0:8::1]:9", access.ErrUnauthenticated},
		"an address of IPv4":                  {"192.0.2.1:9", nil},
		"an invalid address":                  {"unix", access.ErrUnauthenticated},
	} {
		t.Run(claim, func(*testing.T) {
			if c.want == nil { // the same client, with different forms of its address
				for i := range 5 {
					d.wantAdmit(from("192.0.2.1:9", fmt.Sprint("v4-", i)), access.ErrUnauthenticated)
					d.wantAdmit(from("[::ffff:192.0.2.1]:9", fmt.Sprint("mapped-", i)), access.ErrUnauthenticated)
				}
				d.wantAdmit(from("[::ffff:192.0.2.1]:10", "v4"), access.ErrTooManyAttempts)
				return
			}
			d.wantAdmit(from(c.address, strings.ReplaceAll(claim, " ", "-")), c.want)
		})
	}
}

func TestWrongTokensDoNotBlockOpenSessions(t *testing.T) {
	d := newFakeAPIServer(t)
	d.tokens["proxied"] = "bob"
	cookie := d.signIn()
	d.wantAdmit(bearer("proxied"), nil)
	for i := range 120 { // from all addresses, until the limit is reached
		r := bearer(fmt.Sprint("bad-", i))
		r.RemoteAddr = fmt.Sprintf("192.0.2.%d:5", 1+i/9)
		_, _ = d.gate.Admit(r, true)
	}
	d.wantAdmit(bearer("new"), access.ErrTooManyAttempts)
	d.advance(31 * time.Second) // the cache expires, so that the API server is asked again
	for i := range 60 {
		r := bearer(fmt.Sprint("worse-", i))
		r.RemoteAddr = fmt.Sprintf("198.51.100.%d:5", 1+i/9)
		_, _ = d.gate.Admit(r, true)
	}
	d.wantAdmit(bearer("new"), access.ErrTooManyAttempts)
	d.wantAdmit(with(cookie), nil)
	d.wantAdmit(bearer("proxied"), nil)
	delete(d.tokens, "proxied")
	d.advance(31 * time.Second)
	d.wantAdmit(bearer("proxied"), access.ErrUnauthenticated)
	d.advance(31 * time.Second)
	for i := range 120 {
		r := bearer(fmt.Sprint("bad-again-", i))
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:5", 1+i/9)
		_, _ = d.gate.Admit(r, true)
	}
	d.wantAdmit(bearer("proxied"), access.ErrTooManyAttempts) // it counts as a guess, like any other token
}

func TestSlowReviewsDoNotDelayOpenSessions(t *testing.T) {
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
	gate := access.NewGate([]access.Core{{Name: "core", Reviews: access.NewReviews(client, 0, time.Now)}}, access.NewSessions(time.Hour, time.Hour, 3, time.Now), time.Now) // disable caching
	cookie, err := gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "good")
	if err != nil {
		t.Fatal(err)
	}
	var others sync.WaitGroup
	for i := range 40 {
		others.Go(func() {
			r := bearer(fmt.Sprint("slow-", i))
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:5", 1+i)
			_, _ = gate.Admit(r, true)
		})
	}
	for range 4 { // maxFirstReviews
		<-reviewing
	}
	if _, err := gate.Admit(with(cookie), true); err != nil {
		t.Errorf("Admit() of an open session while sign-ins are slow: %v", err)
	}
	close(held)
	others.Wait()
}

func TestSignInsDoNotEndSessionsOfOtherUsers(t *testing.T) {
	d := newFakeAPIServer(t) // at most three sessions
	d.tokens["other"] = "eve"
	first := d.signIn()
	d.advance(time.Minute)
	var last *http.Cookie
	for range 9 {
		d.advance(time.Second)
		cookie, err := d.gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "other")
		if err != nil {
			t.Fatal(err)
		}
		last = cookie
	}
	d.wantAdmit(with(first), nil)
	d.wantAdmit(with(last), nil)
	d.tokens["third"], d.tokens["fourth"] = "bob", "joe"
	if _, err := d.gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "third"); err != nil {
		t.Errorf("SignIn() of a third user: %v, want a place of the user who has two", err)
	}
	if _, err := d.gate.SignIn(httptest.NewRequest(http.MethodPost, "/sign-in", nil), "fourth"); !errors.Is(err, access.ErrTooManyUsers) {
		t.Errorf("SignIn() of a fourth user: %v, want %v", err, access.ErrTooManyUsers)
	}
	d.wantAdmit(with(first), nil)
	d.wantAdmit(with(last), nil)
}

func TestSessionEnds(t *testing.T) {
	for claim, c := range map[string]struct {
		end  func(d *fakeAPIServer, cookie *http.Cookie)
		want error
	}{
		"not while it is used": {func(d *fakeAPIServer, cookie *http.Cookie) {
			for range 11 {
				d.advance(59 * time.Minute)
				d.wantAdmit(with(cookie), nil)
			}
		}, nil},
		"when its lifetime has passed, even if it is used": {func(d *fakeAPIServer, cookie *http.Cookie) {
			for range 13 {
				d.advance(59 * time.Minute)
				_, _ = d.gate.Admit(with(cookie), true)
			}
		}, access.ErrUnauthenticated},
		"when only its page sends requests": {func(d *fakeAPIServer, cookie *http.Cookie) {
			for range 4 {
				d.advance(15 * time.Minute)
				_, _ = d.gate.Admit(with(cookie), false)
			}
		}, access.ErrUnauthenticated},
		"when its user signs out": {func(d *fakeAPIServer, cookie *http.Cookie) { d.gate.SignOut(with(cookie)) }, access.ErrUnauthenticated},
		"when its browser signs in again": {func(d *fakeAPIServer, cookie *http.Cookie) {
			if _, err := d.gate.SignIn(with(cookie), "good"); err != nil {
				d.Fatal(err)
			}
		}, access.ErrUnauthenticated},
		"when its token is no longer valid": {func(d *fakeAPIServer, _ *http.Cookie) { delete(d.tokens, "good"); d.advance(time.Minute) }, access.ErrUnauthenticated},
		"when there are too many, and it was idle longest": {func(d *fakeAPIServer, _ *http.Cookie) {
			for range 3 {
				d.advance(time.Second)
				d.signIn()
			}
		}, access.ErrUnauthenticated},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newFakeAPIServer(t)
			cookie := d.signIn()
			visitor, err := d.gate.Admit(with(cookie), true)
			if err != nil {
				t.Fatal(err)
			}
			c.end(d, cookie)
			d.wantAdmit(with(cookie), c.want)
			if c.want == nil {
				return
			}
			if err := visitor.Revalidate(t.Context()); !errors.Is(err, access.ErrUnauthenticated) {
				t.Errorf("Admit() after the session ended: %v, want an error", err)
			}
			select {
			case <-visitor.Session.Ended():
			default:
				t.Error("Ended() is not closed after the session ended")
			}
		})
	}
}

func TestSessionCookieAttributes(t *testing.T) {
	d := newFakeAPIServer(t)
	first, second := d.signIn(), d.signIn()
	if first.Value == second.Value || len(first.Value) < 40 || strings.Contains(first.Value, "good") {
		t.Errorf("session IDs %q and %q are equal", first.Value, second.Value)
	}
	header := first.String()
	for _, word := range []string{"__Host-", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(header, word) {
			t.Errorf("cookie has no %s: %s", word, header)
		}
	}
	if strings.Contains(header, "Domain") {
		t.Error("cookie has a Domain, want a host-only cookie")
	}
}

func TestVisibleNamespacesMatchReviews(t *testing.T) {
	d := newFakeAPIServer(t)
	d.tokens["boss"] = "eve"
	d.permissions["ann list podprotectors shop"] = true
	d.permissions["eve list podprotectors "] = true
	sight := func(token string, namespaces ...string) access.VisibleNamespaces {
		visitor, err := d.gate.Admit(bearer(token), true)
		if err != nil {
			t.Fatal(err)
		}
		seen, err := visitor.VisibleNamespaces(t.Context(), "core", "breakwater.dev", "podprotectors", namespaces)
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	if s := sight("good", "shop", "bank"); !s.Has("shop") || s.Has("bank") || s.Has("") || s.All {
		t.Errorf("%+v", s)
	}
	if s := sight("boss", "shop", "bank"); !s.Has("shop") || !s.Has("bank") || !s.All {
		t.Errorf("%+v", s)
	}
	many := make([]string, 1000)
	for i := range many {
		many[i] = "n" + strings.Repeat("x", i)
	}
	before := d.reviewCount.Load()
	if s := sight("good", many...); s.Unreviewed != 700 || d.reviewCount.Load()-before != 300 {
		t.Errorf("%d namespaces not reviewed, %d reviews", s.Unreviewed, d.reviewCount.Load()-before)
	}
	d.advance(time.Minute)
	visitor, err := d.gate.Admit(bearer("good"), true)
	if err != nil {
		t.Fatal(err)
	}
	d.unavailable = true
	if _, err := visitor.VisibleNamespaces(context.Background(), "core", "breakwater.dev", "podprotectors", []string{"shop"}); err == nil {
		t.Error("VisibleNamespaces() while the API server is unreachable shows a namespace, want none")
	}
	d.unavailable = false
	sight("good", "shop")
	d.unavailable = true
	if _, err := visitor.VisibleNamespaces(context.Background(), "core", "breakwater.dev", "podprotectors", []string{"shop", "bank"}); err == nil {
		t.Error("VisibleNamespaces() without an answer about bank succeeded, want an error")
	}
}

func TestLocalUserIsKnownInAllCores(t *testing.T) {
	east, west := newFakeAPIServer(t), newFakeAPIServer(t)
	gate := access.NewGate([]access.Core{{Name: "east", Reviews: east.reviews}, {Name: "west", Reviews: west.reviews}},
		access.NewSessions(time.Hour, time.Hour, 3, time.Now), time.Now)
	cookie, err := gate.SignInLocally(httptest.NewRequest(http.MethodGet, "/", nil), "ann")
	if err != nil {
		t.Fatal(err)
	}
	west.permissions["ann list cells "] = true
	visitor, err := gate.Admit(with(cookie), true)
	if err != nil {
		t.Fatal(err)
	}
	for core, want := range map[string]bool{"east": false, "west": true} {
		if ok, err := visitor.IsAllowed(t.Context(), core, access.Permission{Resource: "cells"}); ok != want || err != nil || !visitor.Knows(core) {
			t.Errorf("IsAllowed() in %s = %t, %v, want %t", core, ok, err, want)
		}
	}
	if err := visitor.Revalidate(t.Context()); err != nil || east.reviewCount.Load() != 1 {
		t.Errorf("Revalidate() = %v after %d reviews in east, want no review of a token", err, east.reviewCount.Load())
	}
	gate.SignOut(with(cookie))
	if err := visitor.Revalidate(t.Context()); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("Revalidate() after sign-out: %v, want %v", err, access.ErrUnauthenticated)
	}
}
