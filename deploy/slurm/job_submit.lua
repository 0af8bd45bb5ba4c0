-- A hint to who submits a job with GPUs, whole or in parts: what the last job of that name would have done with. It changes no job and
-- refuses none. Copy it next to slurm.conf (JobSubmitPlugins=lua); a site that has a job_submit.lua calls
--     pcall(dofile, "/etc/slurm/gpu_exporter_hint.lua")   -- once, and in slurm_job_submit:
--     if gpu_exporter_hint then gpu_exporter_hint(job) end
-- What it reads is written by gpu-exporter-summaries.timer: a file for each user, a line for each name of a job.

local folder = "/var/lib/gpu-exporter-summaries/hints/"
local asked = {"tres_per_node", "tres_per_job", "tres_per_socket", "tres_per_task"}
local kinds = {"gpu", "shard", "mps"} -- whole, and in parts

local function has_gpus(job)
    for _, field in ipairs(asked) do
        local value = job[field]
        for _, kind in ipairs(kinds) do
            if type(value) == "string" and value:find(kind, 1, true) then
                return true
            end
        end
    end
    return false
end

local function hint(job)
    if not has_gpus(job) then
        return
    end
    local file = io.open(folder .. string.format("%d", job.user_id), "r")
    if not file then
        return
    end
    for line in file:lines() do
        local name, text = line:match("^([^\t]*)\t(.*)$")
        if name == job.name then
            slurm.log_user("%s", text)
            break
        end
    end
    file:close()
end

function gpu_exporter_hint(job)
    pcall(hint, job)
end

if not slurm_job_submit then
    function slurm_job_submit(job, partitions, uid)
        gpu_exporter_hint(job)
        return slurm.SUCCESS
    end

    function slurm_job_modify(job, record, partitions, uid)
        return slurm.SUCCESS
    end
end
