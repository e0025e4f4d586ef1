package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CellNames returns the sorted names of the cells that configurations have webhooks for, even if those have weaknesses.
func CellNames(configurations []admissionregistrationv1.ValidatingWebhookConfiguration) (names []string) {
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			config := &configurations[i].Webhooks[j].ClientConfig
			before, is := strings.CutSuffix(webhookPath(config), "/validate")
			if name := before[strings.LastIndex(before, "/")+1:]; is && name != "" && servesCell(config, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// RemovalServices returns the Services that API servers call for removals of a cell's pods. A webhook that they call by a URL has none.
func RemovalServices(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) (services []types.NamespacedName) {
	for i := range configurations {
		for j := range configurations[i].Webhooks {
			if config := &configurations[i].Webhooks[j].ClientConfig; config.Service != nil && servesCell(config, cell) {
				services = append(services, types.NamespacedName{Namespace: config.Service.Namespace, Name: config.Service.Name})
			}
		}
	}
	slices.SortFunc(services, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(services)
}
