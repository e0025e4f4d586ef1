package simulation

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/desired"
	"github.com/breakwater-k8s/breakwater/internal/simulation/apiserver"
)

// sourceName is the Deployment's, whose protector the generator makes.
const sourceName = "web"

// protectorName is the name of that protector.
func protectorName() string {
	return desired.ProtectorName(desired.Ref{Group: "apps", Kind: "Deployment", Name: sourceName})
}

// changeSource is what becomes of the Deployment: a user deletes it or makes it anew, or it vanishes, or its protector
// does. An object that vanishes was never seen to terminate.
func (w *world) changeSource(s Step) {
	store, key := w.cores[0].store, types.NamespacedName{Namespace: namespace, Name: sourceName}
	switch s.What {
	case DeleteSource:
		_, _ = store.Delete("deployments", key, "", "user")
	case CreateSource:
		_, _ = store.Create("deployments", w.deployment(), "user")
	case LoseSource:
		store.Lose("deployments", key)
	case LoseProtector:
		store.Lose("podprotectors", types.NamespacedName{Namespace: namespace, Name: protectorName()})
	}
}

// isSourceServed tells whether the Deployment has the protector that it should have, or none if it was deleted.
func (w *world) isSourceServed() string {
	core := w.cores[0]
	protector, absent := core.store.Get("podprotectors", types.NamespacedName{Namespace: namespace, Name: protectorName()})
	source, gone := core.store.Get("deployments", types.NamespacedName{Namespace: namespace, Name: sourceName})
	switch {
	case gone == nil && source.GetDeletionTimestamp() != nil:
		return "the Deployment is not released"
	case gone == nil && absent != nil:
		return "the Deployment has no protector"
	case gone != nil && absent == nil && w.judge.isReleased(core.name):
		return "the Deployment was deleted, and its protector is there"
	case gone == nil:
		return isAsAsked(source, protector)
	}
	return ""
}

func isAsAsked(source, protector client.Object) string {
	d, ok := source.(*appsv1.Deployment)
	p, okToo := protector.(*v1alpha1.PodProtector)
	if !ok || !okToo {
		return "the store mixes up its kinds"
	}
	wanted, err := desired.FromDeployment(d)
	if err != nil {
		return err.Error()
	}
	if got, want := floorOf(p), floorOf(wanted.Object); got != want {
		return fmt.Sprintf("the Deployment asks for a floor of %d, and its protector has %d", want, got)
	}
	return ""
}

// sourceChanged notes whether the Deployment's protector may be released: from the begin of its deletion on, until
// there is another one.
func (j *judge) sourceChanged(core string, e *apiserver.Event) {
	j.trace.add("%s: Deployment %s %s by %s", core, e.New.GetName(), strings.ToLower(string(e.Type)), orWorld(e.By))
	if e.Type != watch.Deleted {
		j.released[core] = e.New.GetDeletionTimestamp() != nil
	}
	j.vanished[core] = e.Type == watch.Deleted && e.By == ""
}

// isReleased tells whether the protector has to go. That of a Deployment which vanished may: the generator may not have
// been there when it was deleted.
func (j *judge) isReleased(core string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.released[core] && !j.vanished[core]
}

// judgeEnd judges the end of a protector. Nobody of us ends one but the generator, and that only when its Deployment is
// deleted; what it was about to do when a restore undid the deletion takes some requests.
func (j *judge) judgeEnd(core string, e *apiserver.Event) {
	undone, ever := j.unreleased[core]
	if p, ok := e.Old.(*v1alpha1.PodProtector); ok && p.DeletionTimestamp != nil && !desired.IsGenerated(p) {
		return // a user has deleted it
	}
	if ours := e.By != "" && e.By != "user"; ours && !j.released[core] && (!ever || time.Since(undone) > 5*time.Second) {
		j.fail("%s has ended protector %s/%s, and nobody has deleted its Deployment", e.By, core, e.New.GetName())
	}
}

// isSource tells whether an object is a Deployment.
func isSource(o client.Object) bool {
	_, ok := o.(*appsv1.Deployment)
	return ok
}
