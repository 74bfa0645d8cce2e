/**
 * What cmd.exe has to be given, word for word, to start a batch file such as `npx.cmd` with exactly these arguments; null where
 * one of them has a line break or NUL, at which cmd.exe would end.
 *
 * Three readers take it apart: cmd.exe, the batch file's own line with `%*` in it, and the program that this starts. All is in
 * quotes, where `& | < > ^ ( )` mean nothing; a quote becomes two, which leaves the first two readers within quotes and is one
 * to the third. `%` would begin a variable even there: the empty part of a variable that is always set comes after it.
 */
export function cmdLine(file: string, args: readonly string[]): string | null {
  const words = [file, ...args];
  if (words.some((word) => /[\0\r\n]/.test(word))) return null;
  // No AutoRun, extensions for the empty part, no meaning of `!`; of what follows /c only the outer quotes are taken away.
  return `/d /e:on /v:off /s /c "${words.map(quoted).join(' ')}"`;
}

/** Windows overlooks dots and spaces at the end of a name. */
export function isBatchFile(file: string): boolean {
  return /\.(?:cmd|bat)[. ]*$/i.test(file);
}

function quoted(word: string): string {
  // Before a quote each backslash counts for half a one.
  const slashes = word.replaceAll(/\\+(?="|$)/g, (run) => run + run);
  return `"${slashes.replaceAll('"', '""').replaceAll('%', '%%cd:~,%')}"`;
}
