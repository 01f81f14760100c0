"""What the programs of bench/peers printed, shortened."""

IB_SEND_LAT = (
    "--------------------------------------------------\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    "
    "t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
    " 8       1000          19.27          336.69       49.18    \t       80.62       \t67.43  \t\t"
    "283.45  \t\t336.69 \n"
    "--------------------------------------------------\n"
)
SILENT_READER = "p50 90.206  p99 3277.155  p99.9 6257.132  mean 220.771  of 2268 round trips\n"
MANY_QPS = "rate 0.1387 M/s over 10000 queue pairs, 69933 messages\n"
# -v with a batch: lines in between tell how far a run is that takes more than a second.
UCX_LATENCY = """\
batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
value,[thread 0] 123,4004.708,4079.883,4079.883,0.00,0.00,245,245
value,100000,0.135,3.515,8.529,2.17,0.89,284465,117243
p99,100000,0.181,0.453,0.453,16.85,16.85,2208819,2208819
p99_9,[thread 0]60013,6006.488,8.437,41.755,0.90,0.18,118526,23949
p99_9,100000,18.817,7.461,38.043,1.02,0.20,134036,26286
"""
UCX_BANDWIDTH = """\
batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
value,30000,4.948,18.561,18.561,3367.35,3367.35,53878,53878
"""
FI_PINGPONG = """\
bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec
64k     20k     =20k     2.4g        0.29s   8906.01       7.36       0.14
"""
IPERF3 = """\
{"start": {}, "end": {"sum_sent": {"bits_per_second": 11700000000.5},
 "sum_received": {"seconds": 1.0, "bits_per_second": 11600000000.5}}}
"""
SOCKPERF = """\
sockperf: \x1b[2;35m====> avg-latency=6.91 (std-dev=3.2)\x1b[0m
sockperf: # dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0
sockperf: ---> percentile 99.999 = 796.150
sockperf: ---> percentile 99.900 =   41.700
sockperf: ---> percentile 99.000 =   29.800
sockperf: ---> percentile 50.000 =    6.380
"""
TESTPMD = """\
  Throughput (since last show)
  Rx-pps:            0          Rx-bps:            0
  Rx-pps:      2209943          Rx-bps:  73476937744
  Tx-pps:            0          Tx-bps:            0
  Rx-pps:      2290340          Rx-bps:  76148865240
  Rx-pps:            0          Rx-bps:            0
"""
ICRC_SPEED = """\
{"context": {"num_cpus": 2}, "benchmarks": [
 {"name": "update/64", "bytes_per_second": 1e9},
 {"name": "update/4096", "time_unit": "ns", "bytes_per_second": 2.481e10}]}
"""
