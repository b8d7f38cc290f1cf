-- datamove hooks of Slurm, version 1
--
-- What burst_buffer.lua does not see, said to it as lines of the script: requests in --comment and in the variable DATAMOVE, that
-- there are #DW lines, and that the job waits for another one. And the answer of datamove to sbatch. It lies beside slurm.conf, with JobSubmitPlugins=lua.
--
-- slurmctld waits for it with all that it does, so it asks only for jobs that want something of datamove, and not for long. Without
-- an answer a job is taken: it is asked again, by burst_buffer.lua, before it is given anything.

local datamove = "/usr/local/bin/datamove"
local soon = "/usr/bin/timeout --signal=KILL 6 "
local mostReason = 4000

-- upto is where c first stands in text from i on, outside of double quotes, or behind its end.
local function upto(text, c, i)
	local quoted = false
	while i <= #text do
		local b = text:sub(i, i)
		if quoted and b == "\\" then
			i = i + 1
		elseif b == '"' then
			quoted = not quoted
		elseif b == c and not quoted then
			return i
		end
		i = i + 1
	end
	return #text + 1
end

-- requests adds a line for each request in text, from i to before last. The other result is what is wrong with them.
local function requests(lines, source, text, i, last)
	while i < last do
		local stop = math.min(upto(text, ";", i), last)
		local piece = text:sub(i, stop - 1)
		if piece:find("%S") then
			if piece:find("%c") and piece:gsub("\t", ""):find("%c") then
				return source .. ": there is a line end or a control character in a request"
			end
			lines[#lines + 1] = "#DATAMOVE " .. piece .. (piece:sub(-1) == "\\" and " " or "") -- one at the end of a line would join it with the next
		end
		i = stop + 1
	end
end

-- ofComment finds the requests in a comment: behind "datamove:", and up to a '|'.
local function ofComment(lines, text)
	local i = 1
	if (" " .. text:lower()):find("[^%w]datamove[ \t]+%l[%l_-]*=") then
		return '--comment: behind datamove stands a colon: --comment="datamove: stage-in=..."'
	end
	while true do
		local at, behind = text:lower():find("datamove:", i, true)
		if not at then
			return
		end
		i = behind + 1
		if at == 1 or (" \t\n;,|"):find(text:sub(at - 1, at - 1), 1, true) then
			local stop = upto(text, "|", i)
			local wrong = requests(lines, "--comment", text, i, stop)
			if wrong then
				return wrong
			end
			i = stop
		end
	end
end

-- kinds says which lines there are where Slurm looks for directives: before the first that is empty of neither text nor '#'.
local function kinds(text)
	local ours, cray
	for line in text:gmatch("([^\n]*)\n?") do
		if line ~= "" and line:sub(1, 1) ~= "#" then
			break
		end
		ours = ours or line:sub(1, 9) == "#DATAMOVE"
		cray = cray or line == "#DW" or line:find("^#DW[ \t]") ~= nil
	end
	return ours, cray
end

-- mentions says whether a text may have lines of ours, or some that were meant to be: datamove looks.
local function mentions(text)
	text = text:lower()
	return text:find("#[ \t#]*datamove") or text:find("#[ \t#]*dw[ \t]")
end

-- whole is the script as Slurm will have it: with the lines of its burst buffer below the first one. salloc and srun have no other lines.
local function whole(script, buffer)
	if script == "" then
		return "#!/bin/bash\n" .. buffer .. "\n"
	end
	local first, rest = script:match("^([^\n]*\n)(.*)$")
	if buffer == "" or not first then
		return script
	end
	return first .. buffer .. "\n" .. rest
end

-- word makes one word of a shell of anything.
local function word(v)
	return "'" .. tostring(v or ""):gsub("'", "'\\''") .. "'"
end

-- ask returns what datamove has against the script of a job, or nothing.
local function ask(job, script)
	local name = os.tmpname() -- made for us alone
	local file = io.open(name, "w")
	local written = file and file:write(script)
	local closed = file and file:close()
	local said = ""
	if written and closed then
		local pipe = io.popen(string.format("exec %s%s hook bb submit %d %s %s %s", soon, datamove, job.user_id, word(name), word(job.name), word(job.array_inx)))
		said = pipe and pipe:read(65536) or ""
		if pipe then
			pipe:close()
		end
	end
	os.remove(name)
	local first, rest = said:match("^(%u+)%s(.*)$")
	first = first or said
	if first == "ERROR" then
		rest = (rest or ""):sub(1, mostReason):gsub("%s+$", "")
		return rest ~= "" and rest or "refused, without a reason"
	end
	if first ~= "OK" then
		slurm.log_error("datamove: submit: %s did not answer; the job is taken", datamove)
	end
end

local function refuse(text)
	slurm.log_user("datamove: %s", text)
	return slurm.ERROR
end

function slurm_job_submit(job, partitions, uid)
	local script = job.script or ""
	local component = job.het_job_offset and job.het_job_offset ~= slurm.NO_VAL
	local lines = {}
	local wrong = ofComment(lines, job.comment or "")
	local variable = job.environment and job.environment["DATAMOVE"] or ""
	wrong = wrong or requests(lines, "DATAMOVE", variable, 1, #variable + 1)
	if wrong then
		return refuse(wrong)
	end
	local added = #lines
	local buffer = job.burst_buffer or ""
	if added == 0 and not mentions(script) and not mentions(buffer) then
		return slurm.SUCCESS
	end
	if component then -- Slurm calls burst_buffer.lua for the first one alone
		return refuse("a heterogeneous job asks for data (#DATAMOVE, #DW, --comment or DATAMOVE), which would come to its first component alone: submit one job, or each component as a job of its own")
	end
	local ours, cray = kinds(buffer .. "\n" .. script)
	if cray and not ours and added == 0 then
		lines[1] = "#DATAMOVE dw"
	end
	if (job.dependency or "") ~= "" then
		lines[#lines + 1] = "#DATAMOVE depends" -- an earlier job may add the datasets of this one
	end
	if #lines > 0 then
		buffer = table.concat(lines, "\n") .. (buffer ~= "" and "\n" .. buffer or "")
	end
	local answered, against = pcall(ask, job, whole(script, buffer))
	if not answered then
		slurm.log_error("datamove: submit: %s; the job is taken", tostring(against))
	elseif against then
		if added > 0 then
			against = against .. string.format("\n(lines 2 to %d of the script, as it is read, are of --comment and DATAMOVE)", added + 1)
		end
		return refuse(against)
	end
	if #lines > 0 then
		job.burst_buffer = buffer
	end
	if cray then
		slurm.log_user("datamove: capacity= of #DW is room that each node has to have when the job begins, and the limit of the job's directory where the node's file system has quotas (DATAMOVE_CAPACITY, or DATAMOVE_CAPACITY_WHY where it has none)")
	end
	return slurm.SUCCESS
end

-- What was asked for is staged already, or about to be: it does not change, and a change that asks for more is not ignored.
function slurm_job_modify(job, record, partitions, uid)
	if not job.comment then
		return slurm.SUCCESS
	end
	local now, before = {}, {}
	local wrong = ofComment(now, job.comment)
	ofComment(before, record.comment or "")
	if wrong or #now > 0 and table.concat(now, "\n") ~= table.concat(before, "\n") then
		return refuse(wrong or "requests of a job do not change: cancel it, and submit it with the new ones in its --comment")
	end
	return slurm.SUCCESS
end
