package clusters

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// unreachable is an API server that does not answer until the time back.
type unreachable struct {
	reachableAt time.Time
	response    error
	requests    int
}

func (a *unreachable) request() error {
	a.requests++
	if time.Now().Before(a.reachableAt) {
		return a.response
	}
	return nil
}

func (a *unreachable) source() *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &v1alpha1.PodProtectorList{}, a.request()
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewFake(), a.request()
		},
	}
}

func TestReachableAPIServerIsReadSoon(t *testing.T) {
	for claim, silence := range map[string]error{
		"a connection that is refused":  errors.New("connection refused"),
		"one that is starting":          apierrors.NewServiceUnavailable("starting"),
		"one whose etcd is unreachable": apierrors.NewInternalError(errors.New("etcd")),
		"one that is overloaded":        apierrors.NewTooManyRequestsError("later"),
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, outage := range []time.Duration{time.Second, 10 * time.Minute} {
					for name, request := range map[string]func(*toolscache.ListWatch) error{
						"list": func(p *toolscache.ListWatch) error {
							_, err := p.ListWithContext(t.Context(), metav1.ListOptions{})
							return err
						},
						"watch": func(p *toolscache.ListWatch) error {
							_, err := p.WatchWithContext(t.Context(), metav1.ListOptions{})
							return err
						},
					} {
						a := &unreachable{reachableAt: time.Now().Add(outage), response: silence}
						if err := request(retrying(a.source(), nil)); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						if late := time.Since(a.reachableAt); late > 3*time.Second {
							t.Errorf("%s answered %s after the apiserver was back", name, late)
						}
						if most := 10 + int(outage/time.Second); a.requests > most {
							t.Errorf("%s asked %d times in %s, want at most %d", name, a.requests, outage, most)
						}
					}
				}
			})
		})
	}
}

func TestErrorsOfAPIServerAreNotRetried(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("podprotectors").GroupResource()
	for _, answer := range []error{
		apierrors.NewResourceExpired("too old"), apierrors.NewForbidden(resource, "", nil),
		apierrors.NewUnauthorized("who"), apierrors.NewNotFound(resource, ""),
	} {
		a := &unreachable{reachableAt: time.Now().Add(time.Hour), response: answer}
		if _, err := retrying(a.source(), nil).WatchWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, answer) || a.requests != 1 {
			t.Errorf("error %v after %d attempts, want %v at once", err, a.requests, answer)
		}
	}
}

func TestRetriesEndWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := &unreachable{reachableAt: time.Now().Add(time.Hour), response: errors.New("connection refused")}
	if _, err := retrying(a.source(), nil).ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, a.response) {
		t.Errorf("error %v, want the apiserver's", err)
	}
}
