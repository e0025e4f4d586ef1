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

// away is an API server that does not answer until the time back.
type away struct {
	back    time.Time
	silence error
	asked   int
}

func (a *away) ask() error {
	a.asked++
	if time.Now().Before(a.back) {
		return a.silence
	}
	return nil
}

func (a *away) source() *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &v1alpha1.PodProtectorList{}, a.ask()
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), a.ask() },
	}
}

func TestAnApiserverThatComesBackIsReadSoon(t *testing.T) {
	for claim, silence := range map[string]error{
		"a connection that is refused": errors.New("connection refused"),
		"one that is starting":         apierrors.NewServiceUnavailable("starting"),
		"one whose etcd is away":       apierrors.NewInternalError(errors.New("etcd")),
		"one that is overloaded":       apierrors.NewTooManyRequestsError("later"),
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for _, outage := range []time.Duration{time.Second, 10 * time.Minute} {
					for name, ask := range map[string]func(*toolscache.ListWatch) error{
						"list": func(p *toolscache.ListWatch) error {
							_, err := p.ListWithContext(t.Context(), metav1.ListOptions{})
							return err
						},
						"watch": func(p *toolscache.ListWatch) error {
							_, err := p.WatchWithContext(t.Context(), metav1.ListOptions{})
							return err
						},
					} {
						a := &away{back: time.Now().Add(outage), silence: silence}
						if err := ask(patient(a.source(), nil)); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						if late := time.Since(a.back); late > 3*time.Second {
							t.Errorf("%s answered %s after the apiserver was back", name, late)
						}
						if most := 10 + int(outage/time.Second); a.asked > most {
							t.Errorf("%s asked %d times in %s, want at most %d", name, a.asked, outage, most)
						}
					}
				}
			})
		})
	}
}

func TestAnAnswerIsTakenForOne(t *testing.T) {
	resource := v1alpha1.GroupVersion.WithResource("podprotectors").GroupResource()
	for _, answer := range []error{
		apierrors.NewResourceExpired("too old"), apierrors.NewForbidden(resource, "", nil),
		apierrors.NewUnauthorized("who"), apierrors.NewNotFound(resource, ""),
	} {
		a := &away{back: time.Now().Add(time.Hour), silence: answer}
		if _, err := patient(a.source(), nil).WatchWithContext(t.Context(), metav1.ListOptions{}); !errors.Is(err, answer) || a.asked != 1 {
			t.Errorf("error %v after %d attempts, want %v at once", err, a.asked, answer)
		}
	}
}

func TestPatienceEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := &away{back: time.Now().Add(time.Hour), silence: errors.New("connection refused")}
	if _, err := patient(a.source(), nil).ListWithContext(ctx, metav1.ListOptions{}); !errors.Is(err, a.silence) {
		t.Errorf("error %v, want the apiserver's", err)
	}
}
