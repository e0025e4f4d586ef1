package scheduling

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// policyWatch reads the policies of a core cluster.
type policyWatch struct {
	core     string
	cache    cache.Informers
	policies *policies
	log      logr.Logger
}

// NeedLeaderElection returns false: all replicas answer.
func (s *policyWatch) NeedLeaderElection() bool { return false }

// Start follows the policies until ctx ends. It retries an unreachable core without limit; objects are stored without
// its policies meanwhile.
func (s *policyWatch) Start(ctx context.Context) error {
	for _, kind := range []client.Object{&v1alpha1.PodSchedulingPolicy{}, &v1alpha1.ClusterPodSchedulingPolicy{}} {
		registration, err := s.watchWithRetry(ctx, kind)
		if err != nil || !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return nil // ctx has ended
		}
	}
	s.policies.markSynced(s.core)
	s.log.Info("Read scheduling policies of core cluster")
	<-ctx.Done()
	return nil
}

func (s *policyWatch) watchWithRetry(ctx context.Context, kind client.Object) (registration toolscache.ResourceEventHandlerRegistration, err error) {
	retry := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 8, Cap: 30 * time.Second}
	err = retry.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if registration, err = s.watch(ctx, kind); err != nil && ctx.Err() == nil {
			s.log.Error(err, "Could not watch scheduling policies, pods are stored without them")
		}
		return err == nil, nil
	})
	return registration, err
}

func (s *policyWatch) watch(ctx context.Context, kind client.Object) (toolscache.ResourceEventHandlerRegistration, error) {
	informer, err := s.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	return informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: s.put,
		UpdateFunc: func(before, now any) {
			if !sameSpec(before, now) { // most updates change only counts
				s.put(now)
			}
		},
		DeleteFunc: func(deleted any) {
			if name, err := toolscache.DeletionHandlingObjectToName(deleted); err == nil {
				s.policies.drop(s.core, name.Namespace, name.Name)
			}
		},
	})
}

func (s *policyWatch) put(object any) {
	if policy, ok := object.(metav1.Object); ok {
		s.policies.put(s.core, policy)
	}
}

// sameSpec reports whether two states of a policy have the same spec. The generation alone cannot answer this: in a
// core that was restored from a backup, a generation can occur a second time.
func sameSpec(a, b any) bool {
	switch a := a.(type) {
	case *v1alpha1.PodSchedulingPolicy:
		b, ok := b.(*v1alpha1.PodSchedulingPolicy)
		return ok && a.Generation == b.Generation && reflect.DeepEqual(a.Spec, b.Spec)
	case *v1alpha1.ClusterPodSchedulingPolicy:
		b, ok := b.(*v1alpha1.ClusterPodSchedulingPolicy)
		return ok && a.Generation == b.Generation && reflect.DeepEqual(a.Spec, b.Spec)
	}
	return false
}
