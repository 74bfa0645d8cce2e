import type { Server } from '../model/server.ts';

/** What the other nodes of a cluster have, as this one knows it. */
export interface OtherNodes {
  /** The server of that name that this node has not, and the names of the nodes that have it; null where there is none. */
  server(name: string): { readonly server: Server; readonly nodes: readonly string[] } | null;
  /** The nodes that mean something else by its name, or by one that clients would take for it. */
  against(server: Server): readonly string[];
}

/** Of a lone gateway. */
export const NO_OTHER_NODES: OtherNodes = { server: () => null, against: () => [] };
