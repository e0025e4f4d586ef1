package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/cli/finalizers"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/doctor"
)

// refusedSince is the age up to which denials are read to find deleted protectors.
const refusedSince = 5 * time.Minute

func (f *doctorFlags) readCore(ctx context.Context, c core) doctor.Core {
	found := doctor.Core{Name: c.Name}
	if found.Clock = read(clockOf(ctx, c.Config)); found.Clock.Err != nil {
		return found
	}
	together(
		func() { found.Definitions = read(definitionsOf(ctx, c.Config)) },
		func() { found.Cells = read(readCells(ctx, c)) },
		func() { found.Protectors = read(readProtectors(ctx, c)) },
		func() {
			all, err := readDenials(ctx, c, "", "")
			found.Denials = read(denial.Since(all, f.now().Add(-refusedSince)), err)
		},
		func() { found.Held = read(heldIn(ctx, c)) },
		func() { found.Pods = read(podsOfComponents(ctx, c.Config)) },
		func() { found.Rights = read(rightsAt(ctx, c.Config, true, doctor.Wanted(true))) },
		func() { found.Validating = read(webhookConfigurations(ctx, c.Config)) },
		func() { found.Mutating = read(mutatingConfigurations(ctx, c.Config)) },
		func() { found.Policies = read(readPolicies(ctx, c)) },
		func() {
			if found.Rings = read(readRings(ctx, c)); found.Rings.Err == nil {
				found.Leases = read(readShards(ctx, c, found.Rings.Value))
			}
		},
	)
	together(
		func() { found.Doubled = f.double(ctx, c, &found) },
		func() { found.Hooks = hooksOfCore(ctx, &found) },
	)
	return found
}

func definitionsOf(ctx context.Context, config *rest.Config) ([]apiextensionsv1.CustomResourceDefinition, error) {
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, failure(config, err)
	}
	return list.Items, nil
}

func readProtectors(ctx context.Context, c core) (all []v1alpha1.PodProtector, err error) {
	err = pages(ctx, c, &v1alpha1.PodProtectorList{}, func(l *v1alpha1.PodProtectorList) { all = append(all, l.Items...) })
	return all, err
}

// heldIn returns deleted objects that wait for a finalizer of Breakwater.
func heldIn(ctx context.Context, c core) (all []doctor.Held, err error) {
	client, err := metadata.NewForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	found, err := (&finalizers.Finder{Metadata: client, Mapper: c.RESTMapper()}).Find(ctx)
	if err != nil {
		return nil, c.failure(err)
	}
	for i := range found {
		if found[i].Deleted() {
			all = append(all, doctor.Held{Name: found[i].Name(), Deleted: found[i].Object.DeletionTimestamp.Time, Finalizers: found[i].Finalizers})
		}
	}
	return all, nil
}

func podsOfComponents(ctx context.Context, config *rest.Config) ([]corev1.Pod, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: doctor.LabelPart + "=" + doctor.PartOf})
	if err != nil {
		return nil, failure(config, err)
	}
	return list.Items, nil
}
