package doctor

var bucketFaults []fault
