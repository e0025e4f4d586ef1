package clusters

import (
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// AddController adds a controller with its sources to a manager.
func AddController[K comparable](mgr manager.Manager, name string, options controller.TypedOptions[K], sources ...source.TypedSource[K]) error {
	c, err := controller.NewTyped(name, mgr, options)
	if err != nil {
		return fmt.Errorf("create the controller %s: %w", name, err)
	}
	var errs []error
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			errs = append(errs, fmt.Errorf("watch %v: %w", s, err))
		}
	}
	return errors.Join(errs...)
}
