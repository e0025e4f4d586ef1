package aggregator

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestAStreamGoesOnOnlyWhereItsCellCertainlyDid(t *testing.T) {
	yes, hour := true, int64(3600)
	list := metav1.ListOptions{SendInitialEvents: &yes, ResourceVersion: "7", TimeoutSeconds: &hour}
	further := metav1.ListOptions{ResourceVersion: "7", TimeoutSeconds: &hour}
	for claim, c := range map[string]struct {
		before func(*continuity, func(metav1.ListOptions, error))
		wait   time.Duration
		goesOn bool
	}{
		"a watch that ended in its time is followed by another": {
			func(_ *continuity, open func(metav1.ListOptions, error)) { open(list, nil) }, time.Hour, true},
		"so is that one": {
			func(_ *continuity, open func(metav1.ListOptions, error)) { open(list, nil); open(further, nil) }, time.Hour, true},
		"one that broke off is not": {
			func(_ *continuity, open func(metav1.ListOptions, error)) { open(list, nil) }, time.Hour - time.Second, false},
		"nor is one that could not be opened": {
			func(_ *continuity, open func(metav1.ListOptions, error)) {
				open(list, nil)
				open(further, errors.New("cut"))
			}, 2 * time.Hour, false},
		"a list by pages is followed by a watch": {
			func(c *continuity, _ func(metav1.ListOptions, error)) { c.listed(nil) }, 0, true},
		"one that failed is not": {
			func(c *continuity, _ func(metav1.ListOptions, error)) { c.listed(errors.New("cut")) }, 0, false},
		"nothing goes on from nothing": {func(*continuity, func(metav1.ListOptions, error)) {}, 0, false},
	} {
		t.Run(claim, func(t *testing.T) {
			now := time.Unix(0, 0)
			past := &continuity{now: func() time.Time { return now }}
			var asked []metav1.ListOptions
			open := func(options metav1.ListOptions, failure error) (watch.Interface, error) {
				return past.watch(t.Context(), options, func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
					asked = append(asked, options)
					return watch.NewFake(), failure
				})
			}
			c.before(past, func(options metav1.ListOptions, failure error) {
				if _, err := open(options, failure); !errors.Is(err, failure) {
					t.Fatalf("error %v, want %v", err, failure)
				}
				now = now.Add(time.Hour)
			})
			if len(asked) > 0 {
				now = now.Add(c.wait - time.Hour)
			}
			before := len(asked)
			_, err := open(further, nil)
			if went := len(asked) > before; went != c.goesOn || !c.goesOn && !apierrors.IsResourceExpired(err) {
				t.Errorf("it went on: %t, error %v", went, err)
			}
			for _, options := range asked {
				if lists(options) && options.ResourceVersion != "" {
					t.Errorf("a list of version %q was asked for, not of the newest", options.ResourceVersion)
				}
			}
		})
	}
}
