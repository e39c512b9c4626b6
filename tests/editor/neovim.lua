-- Use the language server as somebody in Neovim would, and write what is seen after each step to a file, a JSON text a row.
--
-- The environment names the configuration (TL_SNIPPET), the folder of the program (TL_FOLDER) and that file (TL_REPORT).

local folder = vim.env.TL_FOLDER
local report = assert(io.open(vim.env.TL_REPORT, "w"))
local PATIENCE_MS = 15000

local function tell(step, seen)
  seen.step = step
  report:write(vim.fn.json_encode(seen), "\n")
  report:flush()
end

local function findings(buffer)
  local found = {}
  for _, one in ipairs(vim.diagnostic.get(buffer)) do
    table.insert(found, { one.code or one.user_data.lsp.code, one.lnum + 1, one.col + 1 })
  end
  table.sort(found, function(a, b)
    return a[2] < b[2]
  end)
  return found
end

-- The findings of a buffer once they have these codes, or those that are there when patience ends.
local function await(buffer, codes)
  vim.wait(PATIENCE_MS, function()
    local seen = vim.tbl_map(function(one)
      return one[1]
    end, findings(buffer))
    return table.concat(seen, " ") == codes
  end, 20)
  return findings(buffer)
end

local function text_of(path)
  return table.concat(vim.fn.readfile(path), "\n") .. "\n"
end

-- Neovim before 0.11 takes no configuration of this form: the server is started by hand there, and told the settings, as
-- later ones do.
local client
local configured
if vim.lsp.config == nil then
  vim.lsp.config = function(name, given)
    configured = vim.tbl_extend("force", given, { name = name, root_dir = folder })
    configured.on_init = function(started)
      started.notify("workspace/didChangeConfiguration", { settings = given.settings })
    end
  end
  vim.lsp.enable = function()
    client = vim.lsp.start_client(configured)
  end
end
dofile(vim.env.TL_SNIPPET)

local function open(name)
  vim.cmd("edit " .. folder .. "/" .. name)
  local buffer = vim.api.nvim_get_current_buf()
  if client then
    vim.lsp.buf_attach_client(buffer, client)
  end
  return buffer
end

local function replace(buffer, row, text)
  vim.api.nvim_buf_set_lines(buffer, row - 1, row, true, { text })
end

local function execute(command, argument)
  local answers = vim.lsp.buf_request_sync(
    0,
    "workspace/executeCommand",
    { command = command, arguments = { argument } },
    PATIENCE_MS
  )
  for _, answer in pairs(answers or {}) do
    return answer.result
  end
end

-- Open the menu of code actions at a place, and choose from it; the titles.
local function choose(row, column, wanted)
  local titles
  vim.ui.select = function(items, options, chosen)
    titles = vim.tbl_map(options.format_item, items)
    for number, title in ipairs(titles) do
      if title:find(wanted, 1, true) then
        return chosen(items[number], number)
      end
    end
    chosen(nil)
  end
  vim.api.nvim_win_set_cursor(0, { row, column - 1 })
  vim.lsp.buf.code_action()
  vim.wait(PATIENCE_MS, function()
    return titles ~= nil
  end, 20)
  return titles
end

local function play()
  local train = open("train.py")
  tell("opened", { findings = await(train, "TL405 TL201") })

  local explained = execute("trainlint.explain", { code = "TL405" })
  tell("explained", { name = explained.name, page = explained.page })

  vim.cmd("messages clear")
  choose(13, 10, "Why is")
  vim.wait(PATIENCE_MS, function()
    return vim.fn.execute("messages"):find("TL405 deprecated%-amp") ~= nil
  end, 20)
  tell("asked why", { said = vim.fn.execute("messages") })

  local titles = choose(13, 10, "(TL405")
  local after = await(train, "TL201")
  vim.cmd("write")
  tell("fixed one", { titles = titles, findings = after, disk = text_of(folder .. "/train.py") })

  replace(train, 18, "    history.append(loss.detach())")
  tell("edited", { findings = await(train, "") })
  replace(train, 18, "    history.append(float(value_of(loss)))")
  tell("edited back", { findings = await(train, "TL201") })

  local metrics = open("metrics.py")
  replace(metrics, 2, "    return tensor.item()")
  tell("edited the other file", { other = await(metrics, "TL201"), findings = await(train, "") })

  vim.cmd("buffer " .. train)
  replace(train, 13, '    with torch.cuda.amp.autocast(dtype=torch.bfloat16):')
  await(train, "TL405")
  local applied = execute("trainlint.applyFixAll", { uri = vim.uri_from_bufnr(train) })
  after = await(train, "")
  vim.cmd("write")
  tell("fixed all", { applied = applied, findings = after, disk = text_of(folder .. "/train.py") })

  local information = execute("trainlint.debugInformation")
  tell("settings", { settings = information.folders[1].settings })
end

local ok, fault = pcall(play)
if not ok then
  tell("failed", { why = fault })
end
report:close()
vim.lsp.stop_client(vim.lsp.get_active_clients())
vim.wait(PATIENCE_MS, function()
  return #vim.lsp.get_active_clients() == 0
end, 20)
vim.cmd("qall!")
