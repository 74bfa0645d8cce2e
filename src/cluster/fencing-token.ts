/**
 * What tells an owner from those before it, and a later one from it: the making of the store, whose revisions may begin
 * again when it was lost, and a revision.
 */
export function fencingToken(incarnation: string, revision: number): string {
  return `${incarnation}.${revision}`;
}
