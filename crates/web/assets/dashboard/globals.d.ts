/** The plotting library, which the page loads as a script of its own. */
declare const uPlot: any;
