package rings_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// turnKey is the data key in which an object counts its changes.
const turnKey = "turn"

// objects are the ConfigMaps of a ring, in several namespaces, which clients create, change and delete.
type objects struct {
	testing.TB
	clientset *kubernetes.Clientset
	// prefix is the prefix of the names of the namespaces.
	prefix     string
	namespaces []string

	mu sync.Mutex
	// turns has the turn of each existing object, by namespace/name.
	turns   map[string]int
	created int
}

// newObjects creates the namespaces. When the test ends, it deletes the objects in them, because sharders read all objects of the cluster.
func newObjects(t testing.TB, namespaces int, label string) *objects {
	t.Helper()
	o := &objects{TB: t, clientset: kubernetes.NewForConfigOrDie(testplane.Config(t)), turns: map[string]int{}, prefix: "ring-" + label + "-"}
	for range namespaces {
		made, err := o.clientset.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{GenerateName: o.prefix, Labels: map[string]string{ringLabel: label}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o.namespaces = append(o.namespaces, made.Name)
	}
	t.Cleanup(func() {
		for _, namespace := range o.namespaces {
			err := o.clientset.CoreV1().ConfigMaps(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
			if err != nil {
				t.Error(err)
			}
		}
	})
	return o
}

// forEach calls do n times, from concurrent clients.
func (o *objects) forEach(n int, do func(ctx context.Context, i int) error) {
	o.Helper()
	todo := make(chan int)
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for i := range todo {
				if err := do(o.Context(), i); err != nil {
					o.Error(err)
				}
			}
		})
	}
	for i := range n {
		todo <- i
	}
	close(todo)
	running.Wait()
	if o.Failed() {
		o.FailNow()
	}
}

// createObject creates an object. The API server generates the name of every third one.
func (o *objects) createObject(ctx context.Context) error {
	o.mu.Lock()
	o.created++
	n := o.created
	o.mu.Unlock()
	object := &corev1.ConfigMap{Data: map[string]string{turnKey: "0"}}
	if object.Name = fmt.Sprintf("object-%05d", n); n%3 == 0 {
		object.GenerateName, object.Name = "generated-", ""
	}
	made, err := o.clientset.CoreV1().ConfigMaps(o.namespaces[n%len(o.namespaces)]).Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns[made.Namespace+"/"+made.Name] = 0
	return nil
}

// changeObject changes one of the objects. No other client changes that object meanwhile.
func (o *objects) changeObject(ctx context.Context) error {
	key, turn := o.claimObject()
	if key == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(key, "/")
	patch := []byte(`{"data":{"` + turnKey + `":"` + strconv.Itoa(turn+1) + `"}}`)
	_, err := o.clientset.CoreV1().ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	o.mu.Lock()
	defer o.mu.Unlock()
	o.turns[key] = turn + 1
	return err
}

func (o *objects) deleteObject(ctx context.Context) error {
	key, _ := o.claimObject()
	if key == "" {
		return nil
	}
	namespace, name, _ := strings.Cut(key, "/")
	return o.clientset.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// claimObject removes an arbitrary object from turns, so that no other client uses it, and returns it. It returns "" if turns is empty.
func (o *objects) claimObject() (key string, turn int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, turn = range o.turns { // in random order
		delete(o.turns, key)
		return key, turn
	}
	return "", 0
}

// churn creates, changes and deletes objects until the context ends, at the given rate. A tenth of the requests are creations, and a tenth are
// deletions.
func (o *objects) churn(ctx context.Context, perSecond int) {
	pace := time.NewTicker(time.Second / time.Duration(perSecond))
	defer pace.Stop()
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		running.Go(func() {
			do := o.changeObject
			switch rand.IntN(10) { //nolint:gosec // the choice needs no secure random numbers
			case 0:
				do = o.createObject
			case 1:
				do = o.deleteObject
			}
			if err := do(context.WithoutCancel(ctx)); err != nil {
				o.Error(err)
			}
		})
	}
}

// snapshot returns the turns of all objects. No client may change objects meanwhile.
func (o *objects) snapshot() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.turns)
}
