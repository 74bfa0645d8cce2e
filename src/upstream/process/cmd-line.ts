/**
 * The verbatim command line with which cmd.exe starts a batch file such as `npx.cmd` with exactly these arguments; null if one
 * of them has a line break or NUL, at which cmd.exe would stop.
 *
 * Three parsers read it: cmd.exe, the batch file's own line with `%*`, and the started program. Everything is quoted, so that
 * `& | < > ^ ( )` have no meaning; a quote is doubled: the first two parsers stay inside quotes, the third reads one quote. `%`
 * starts a variable even inside quotes: the empty substring of a variable that is always set follows it.
 */
export function cmdLine(file: string, args: readonly string[]): string | null {
  const words = [file, ...args];
  if (words.some((word) => /[\0\r\n]/.test(word))) return null;
  // No AutoRun; extensions, for the empty substring; `!` has no meaning; after /c only the outer quotes are removed.
  return `/d /e:on /v:off /s /c "${words.map(quoted).join(' ')}"`;
}

/** Windows ignores dots and spaces at the end of a name. */
export function isBatchFile(file: string): boolean {
  return /\.(?:cmd|bat)[. ]*$/i.test(file);
}

function quoted(word: string): string {
  // Before a quote each backslash must be doubled.
  const slashes = word.replaceAll(/\\+(?="|$)/g, (run) => run + run);
  return `"${slashes.replaceAll('"', '""').replaceAll('%', '%%cd:~,%')}"`;
}
