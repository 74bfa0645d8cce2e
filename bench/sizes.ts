/** The sizes that the scenarios' names speak of. */
export const FLEET_SERVERS = 50;
export const TOOLS_EACH = 20;
export const WHOLE_LIST = FLEET_SERVERS * TOOLS_EACH;
export const STDIO_SERVERS = 20;

/** Part of the command line of every server of the bench: tells a gateway's own processes from those it runs. */
export const SERVER_SCRIPTS = 'bench/upstream/';
