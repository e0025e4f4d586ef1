package webhookconfig

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
