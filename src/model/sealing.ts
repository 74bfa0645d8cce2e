/** Keeps small texts unreadable to whoever has not the key; what was sealed for one context opens for no other. */
export interface Sealing {
  seal(context: string, text: string): string;
  /** null for whatever was not sealed so. */
  open(context: string, sealed: string): string | null;
  /**
   * Whether another key than the one in force has sealed it: that one will go, so that it is to be sealed anew. Only where
   * there are several keys.
   */
  outdated?(context: string, sealed: string): boolean;
}
