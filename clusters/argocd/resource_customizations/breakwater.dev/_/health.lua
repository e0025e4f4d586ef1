-- All kinds of breakwater.dev report in the condition Ready whether Breakwater applies the object.
local health = {status = "Progressing", message = "No component has processed it yet."}
if obj.metadata.deletionTimestamp ~= nil then
  health.message = "It is being deleted."
  return health
end
if obj.kind == "ClusterRing" and (obj.spec == nil or obj.spec.resources == nil or next(obj.spec.resources) == nil) then
  health.status = "Healthy"
  health.message = "It has no resources: its shards divide work that has no labels."
  return health
end
if obj.kind == "PodSchedulingPolicy" or obj.kind == "ClusterPodSchedulingPolicy" then
  health.message = "No webhook has processed it yet. Check webhook.scheduling.enabled in the charts."
end
if obj.status == nil then
  return health
end
if obj.status.observedGeneration ~= nil and obj.status.observedGeneration ~= obj.metadata.generation then
  health.message = "The newest spec has not been observed yet."
  return health
end
local conflict = nil
for _, condition in ipairs(obj.status.conditions or {}) do
  if condition.type == "Ready" then
    health.message = condition.message
    if condition.status == "True" then
      health.status = "Healthy"
    elseif condition.status == "False" and condition.reason == "InvalidSelector" then
      health.status = "Degraded"
    end
  elseif condition.type == "Conflicting" and condition.status == "True" then
    conflict = condition.message
  end
end
-- A conflict does not make a policy unhealthy: it allows or denies what a pod sets itself.
if health.status == "Healthy" and conflict ~= nil then
  health.message = "A pod recently conflicted with it: " .. conflict
end
return health
