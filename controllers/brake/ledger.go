package brake

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// ConfigMapName is the name of the ConfigMap that has the grants of the current windows, in the namespace of the generator.
const ConfigMapName = brake.ConfigMapName

// maxConflicts bounds the attempts of a write. Each conflict is a grant of another leader.
const maxConflicts = 20

// ledger stores grants by compare-and-swap. A restarted generator continues with the remaining budget, and leaders share it.
// Only the goroutine that holds Brake.semaphore may use it.
type ledger struct {
	key client.ObjectKey
	// live reads from the API server; writer writes.
	live   client.Reader
	writer client.Writer
	now    func() time.Time

	// observed holds the grants of each budget as this process last observed them, to write them again if the ConfigMap was deleted.
	observed map[string][]brake.Grant
}

func (l *ledger) observedGrants(budget string) []brake.Grant {
	return slices.Clone(l.observed[brake.Key(budget)])
}

// update stores the grants that change returns for a budget; nil stores nothing. It calls change again after a conflict.
func (l *ledger) update(ctx context.Context, budget string, change func([]brake.Grant) []brake.Grant) error {
	for range maxConflicts {
		stored, exists, err := l.read(ctx, brake.Key(budget))
		if err != nil {
			return err
		}
		grants := change(l.observed[brake.Key(budget)])
		if grants == nil {
			return nil
		}
		err = l.write(ctx, stored, exists, brake.Key(budget), grants)
		if err == nil {
			l.observed[brake.Key(budget)] = grants
			return nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("store the grants of large decreases in ConfigMap %s: %w", l.key, err)
		}
	}
	return fmt.Errorf("store the grants of large decreases in ConfigMap %s: %d conflicts", l.key, maxConflicts)
}

// read reads the ConfigMap, and merges it into the remembered grants.
func (l *ledger) read(ctx context.Context, entry string) (stored *corev1.ConfigMap, exists bool, err error) {
	stored = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.key.Namespace, Name: l.key.Name}}
	if err := l.live.Get(ctx, l.key, stored); apierrors.IsNotFound(err) {
		return stored, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("read the grants of large decreases: %w", err)
	}
	grants, err := brake.ReadGrants(stored.Data, entry)
	if err != nil {
		return nil, false, fmt.Errorf("ConfigMap %s: %w", l.key, err)
	}
	l.observed[entry] = merge(l.observed[entry], grants)
	return stored, true, nil
}

func (l *ledger) write(ctx context.Context, stored *corev1.ConfigMap, exists bool, entry string, grants []brake.Grant) error {
	text, err := json.Marshal(grants)
	if err != nil {
		return err
	}
	stored = stored.DeepCopy()
	stored.Data = maps.Clone(stored.Data)
	if stored.Data == nil {
		stored.Data = map[string]string{}
	}
	stored.Data[entry] = string(text)
	brake.DropExpired(stored.Data, entry, l.now())
	if !exists {
		return l.writer.Create(ctx, stored, client.FieldOwner(Name))
	}
	return l.writer.Update(ctx, stored, client.FieldOwner(Name))
}

// merge returns the union of grants. It never counts too much, since every stored grant was granted.
func merge(a, b []brake.Grant) []brake.Grant {
	type identity struct {
		protector types.UID
		at        int64
	}
	seen := map[identity]bool{}
	var all []brake.Grant
	for _, g := range slices.Concat(a, b) {
		if id := (identity{g.Protector, g.At.UnixNano()}); !seen[id] {
			seen[id], all = true, append(all, g)
		}
	}
	return all
}
