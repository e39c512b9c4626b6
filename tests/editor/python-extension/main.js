// The part of the Python extension's interface that concerns the active environment. The real one is not in a registry
// that tests may use.
const vscode = require("vscode");

exports.activate = () => {
  const changed = new vscode.EventEmitter();
  let active = process.env.TRAINLINT_TEST_PYTHON;
  const pathOf = (path) => ({ id: path, path });
  return {
    ready: Promise.resolve(),
    environments: {
      getActiveEnvironmentPath: () => pathOf(active),
      onDidChangeActiveEnvironmentPath: changed.event,
      updateActiveEnvironmentPath: (path) => {
        active = path;
        changed.fire(pathOf(path));
        return Promise.resolve();
      },
      resolveEnvironment: ({ path }) =>
        Promise.resolve({ ...pathOf(path), executable: { uri: vscode.Uri.file(path) } }),
    },
  };
};
